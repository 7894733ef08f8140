package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// MaxBytes bounds a blueprint, and the body of a request, which may hold a spec.
const MaxBytes = 1 << 20

// blueprintName matches plain file names (contract statement 80): no separators, no hidden
// files, nothing that needs quoting.
var blueprintName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// CheckBlueprintName returns an error unless name is a plain file name.
func CheckBlueprintName(name string) error {
	if !blueprintName.MatchString(name) {
		return BadRequest("file %.100q is not the plain name of a file: use letters, digits, dots, dashes and underscores, no directories", name)
	}
	return nil
}

// parseBlueprint parses a gr from JSON or YAML (statements 7 and 69). Unknown or duplicate
// fields, aliases and a second document are the caller's errors.
func parseBlueprint(name string, data []byte) (*topsv1.GcuResource, error) {
	if !strings.HasSuffix(name, ".json") && !json.Valid(data) {
		var err error
		if data, err = yamlToJSON(data); err != nil {
			return nil, BadRequest("blueprint %s: %v", name, err)
		}
	}
	gr := &topsv1.GcuResource{}
	if err := DecodeStrictly(data, gr); err != nil {
		return nil, BadRequest("blueprint %s: %v", name, err)
	}
	return gr, nil
}

// yamlToJSON converts one YAML document. It rejects aliases: with them a small file can
// expand without bound.
func yamlToJSON(data []byte) ([]byte, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(data)))
	var document, more yamlv3.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if aliased(&document) {
		return nil, errors.New("it has YAML anchors or aliases, which are not read: write the values out")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: write one GcuResource")
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	return converted, nil
}

func aliased(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, aliased)
}

// DecodeStrictly decodes JSON with field names exactly as documented. Unknown and duplicate
// fields are errors, and so is null, which would change nothing.
func DecodeStrictly(data []byte, into any) error {
	if strings.TrimSpace(string(data)) == "null" {
		return errors.New("it is null")
	}
	doubtful, err := strictjson.UnmarshalStrict(data, into)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if len(doubtful) > 0 {
		return fmt.Errorf("it is refused: %w", errors.Join(doubtful[:min(len(doubtful), 5)]...))
	}
	return nil
}

// checkBlueprint returns an error unless the blueprint is a gr of this name: an
// upgrade cannot rename it (statement 72).
func checkBlueprint(file string, gr *topsv1.GcuResource, name string) error {
	if gr.APIVersion != topsv1.GroupVersion.String() || gr.Kind != topsv1.GcuResourceKind {
		return BadRequest("blueprint %s is a %.100q of %.100q: it has to be a %s of %s", file, gr.Kind, gr.APIVersion, topsv1.GcuResourceKind, topsv1.GroupVersion)
	}
	if gr.Name != name || gr.Namespace != "" {
		return BadRequest("blueprint %s is for %.100q, the request for %q: a GcuResource cannot be renamed, and has no namespace", file, gr.Namespace+"/"+gr.Name, name)
	}
	return nil
}
