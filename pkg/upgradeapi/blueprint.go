package upgradeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// maxBlueprintBytes bounds a blueprint, and the body of a request, which may hold a spec.
const maxBlueprintBytes = 1 << 20

// blueprintName is a plain file name (contract statement 80): no separators, no
// hidden file, nothing that needs quoting.
var blueprintName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// checkBlueprintName returns an error for what is no plain file name.
func checkBlueprintName(name string) error {
	if !blueprintName.MatchString(name) {
		return badRequest("file %.100q is not the plain name of a file: use letters, digits, dots, dashes and underscores, no directories", name)
	}
	return nil
}

// parseBlueprint reads a gr from JSON or YAML (statements 7 and 69). What is
// unknown, doubled, aliased or more than one document is an error of the caller.
func parseBlueprint(name string, data []byte) (*topsv1.GcuResource, error) {
	if !strings.HasSuffix(name, ".json") && !json.Valid(data) {
		var err error
		if data, err = yamlToJSON(data); err != nil {
			return nil, badRequest("blueprint %s: %v", name, err)
		}
	}
	gr := &topsv1.GcuResource{}
	if err := decodeStrictly(data, gr); err != nil {
		return nil, badRequest("blueprint %s: %v", name, err)
	}
	return gr, nil
}

// yamlToJSON converts one YAML document without aliases: with them a small
// file can become any size.
func yamlToJSON(data []byte) ([]byte, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(data)))
	var document, more yamlv3.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is no YAML: %w", err)
	}
	if aliased(&document) {
		return nil, errors.New("it has YAML anchors or aliases, which are not read: write the values out")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: write one GcuResource")
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it is no YAML: %w", err)
	}
	return converted, nil
}

func aliased(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, aliased)
}

// decodeStrictly decodes JSON with the names of fields exactly as they are
// documented; unknown and doubled fields are errors, and null, which would change
// nothing.
func decodeStrictly(data []byte, into any) error {
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
		return badRequest("blueprint %s is a %.100q of %.100q: it has to be a %s of %s", file, gr.Kind, gr.APIVersion, topsv1.GcuResourceKind, topsv1.GroupVersion)
	}
	if gr.Name != name || gr.Namespace != "" {
		return badRequest("blueprint %s is for %.100q, the request for %q: a GcuResource cannot be renamed, and has no namespace", file, gr.Namespace+"/"+gr.Name, name)
	}
	return nil
}

// fresh returns the gr to be created from a blueprint: its name, labels,
// annotations and spec. A blueprint may be what kubectl printed of another gr,
// whose identity and history are not taken over.
func fresh(blueprint *topsv1.GcuResource) *topsv1.GcuResource {
	gr := &topsv1.GcuResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: blueprint.Name, Labels: maps.Clone(blueprint.Labels), Annotations: maps.Clone(blueprint.Annotations)},
		Spec:       *blueprint.Spec.DeepCopy(),
	}
	for _, key := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationRolledBackTo, topsv1.AnnotationRecreation} {
		delete(gr.Annotations, key)
	}
	return gr
}

// upgraded returns a gr with the spec of a blueprint and those upgrade annotations
// that the blueprint has. Without any strategy it gets AdvancedRollingUpdate, so
// that the fleet is rolled (contract section 2.10, D8). What an upgrade before was
// limited to is not its business.
func upgraded(present, blueprint *topsv1.GcuResource) *topsv1.GcuResource {
	gr := present.DeepCopy()
	gr.Spec = *blueprint.Spec.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, present.Annotations)
	for _, key := range topsv1.UpgradeAnnotations {
		if value, ok := blueprint.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	if _, limited := blueprint.Annotations[topsv1.AnnotationUpgradeOnly]; !limited {
		delete(annotations, topsv1.AnnotationUpgradeOnly)
	}
	_, ours := annotations[topsv1.AnnotationUpdateStrategy]
	_, openYurts := annotations[topsv1.OpenYurtAnnotationUpdateStrategy]
	if !ours && !openYurts {
		annotations[topsv1.AnnotationUpdateStrategy] = defaultStrategy
	}
	gr.Annotations = annotations
	return gr
}

// limitedTo returns a gr that is upgraded as far as a cut goes, nil for all of it.
func limitedTo(gr *topsv1.GcuResource, cut *daemonset.Cut) *topsv1.GcuResource {
	gr = gr.DeepCopy()
	if only := cut.String(); only != "" {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradeOnly, only)
	} else {
		delete(gr.Annotations, topsv1.AnnotationUpgradeOnly)
	}
	return gr
}

// defaultStrategy is what a PUT gives a gr that has no strategy.
const defaultStrategy = "AdvancedRollingUpdate"
