package request

import (
	"regexp"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
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
	gr := &topsv1.GcuResource{}
	return gr, unmarshalBlueprint(name, data, gr)
}

// checkContent returns an error unless the spec of a blueprint is written out, {} for no component: the parsed gr
// does not show what is missing or null.
func checkContent(name string, data []byte) error {
	content := map[string]any{}
	if err := unmarshalBlueprint(name, data, &content); err != nil {
		return err
	}
	if err := strictyaml.RequireObject(content, "spec"); err != nil {
		return BadRequest("blueprint %s: %v", name, err)
	}
	return nil
}

func unmarshalBlueprint(name string, data []byte, into any) error {
	read := strictyaml.Unmarshal
	if strings.HasSuffix(name, ".json") {
		read = strictyaml.UnmarshalJSON
	}
	if err := read(data, into); err != nil {
		return BadRequest("blueprint %s: %v", name, err)
	}
	return nil
}

// checkBlueprint returns an error unless the blueprint is a gr of this name: an
// upgrade cannot rename it (statement 72).
func checkBlueprint(file string, gr *topsv1.GcuResource, name string) error {
	if gr.APIVersion != topsv1.GroupVersion.String() || gr.Kind != topsv1.GcuResourceKind {
		return BadRequest("blueprint %s has kind %.100q and apiVersion %.100q: it must be a %s of %s", file, gr.Kind, gr.APIVersion, topsv1.GcuResourceKind, topsv1.GroupVersion)
	}
	if gr.Name != name || gr.Namespace != "" {
		return BadRequest("blueprint %s is for %.100q, the request for %q: a GcuResource cannot be renamed, and has no namespace", file, gr.Namespace+"/"+gr.Name, name)
	}
	return nil
}
