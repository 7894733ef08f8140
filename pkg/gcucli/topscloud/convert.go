package topscloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/config/crd"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
)

// Group is the API group of the newer operator.
const Group = "topscloud.enflame.com"

// alias maps keys of its spec to ours, where they differ.
var alias = map[string]string{"containerToolkit": "toolkit", "gcuExporter": "exporter"}

// foreign are components without a counterpart in ours, with what to do.
var foreign = map[string]string{
	"nodeExporter":          "this operator does not deploy a node exporter: deploy it separately",
	"gcushareConfigManager": "this operator has no such component: gcusharePlugin runs with what its image holds",
	"k8sDriverManager":      "this operator drains a node before it replaces the driver: see drain of an UpgradePolicy",
}

// names are default names of the newer operator that differ from ours, by our key.
var names = map[string]string{
	"nfd":          "enflame-node-feature-discovery",
	"toolkit":      "enflame-container-toolkit",
	"devicePlugin": "enflame-k8s-device-plugin",
}

// defaultTag is the image tag of the newer operator if a spec has none.
const defaultTag = "default"

// Note is a remark about a field for the user.
type Note struct {
	// Field is its path in the file.
	Field string `json:"field"`
	// Lost is true if it is not in the result.
	Lost bool `json:"lost"`
	// Message states why, and what to do.
	Message string `json:"message"`
}

// String returns the note as text.
func (n Note) String() string {
	what := "note"
	if n.Lost {
		what = "lost"
	}
	return what + ": " + n.Field + ": " + n.Message
}

// conversion is a conversion in progress.
type conversion struct {
	spec   map[string]any
	schema *schema
	notes  []Note
}

// Convert converts a GcuResource of Group, as decoded from JSON or YAML. out is our object,
// to be created; the notes, sorted by field, state what could not be carried over. The
// input is not changed. An error means that the input is not such an object, or has one
// component under two names.
func Convert(in map[string]any) (out map[string]any, notes []Note, err error) {
	version, _ := in["apiVersion"].(string)
	group, _, _ := strings.Cut(version, "/")
	switch {
	case group == topsv1.GroupVersion.Group:
		return nil, nil, fmt.Errorf("it is a %s of %s already", in["kind"], version)
	case group != Group || in["kind"] != topsv1.GcuResourceKind:
		return nil, nil, fmt.Errorf("it is a %v of %q, not a %s of %s", in["kind"], version, topsv1.GcuResourceKind, Group)
	}
	ours, err := crd.GcuResourceSpec()
	if err != nil {
		return nil, nil, err
	}
	c := &conversion{spec: map[string]any{}, schema: ours}
	meta, err := c.metadata(in)
	if err != nil {
		return nil, nil, err
	}
	spec, _ := in["spec"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		if err := c.component(key, spec[key]); err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return strings.Compare(a.Field, b.Field) })
	return map[string]any{"apiVersion": topsv1.GroupVersion.String(), "kind": topsv1.GcuResourceKind, "metadata": meta, "spec": c.spec}, c.notes, nil
}

// metadata keeps the user's metadata.
func (c *conversion) metadata(in map[string]any) (map[string]any, error) {
	from, _ := in["metadata"].(map[string]any)
	name, _ := from["name"].(string)
	if name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	meta := map[string]any{"name": name}
	for _, key := range []string{"labels", "annotations"} {
		kept := map[string]any{}
		values, _ := from[key].(map[string]any)
		for k, v := range values {
			if !strings.HasPrefix(k, "kubectl.kubernetes.io/") {
				kept[k] = v
			}
		}
		if len(kept) > 0 {
			meta[key] = kept
		}
	}
	if _, is := from["namespace"]; is {
		c.lose("metadata.namespace", "a gr here has no namespace")
	}
	return meta, nil
}

func (c *conversion) lose(field, message string) {
	c.notes = append(c.notes, Note{Field: field, Lost: true, Message: message})
}

func (c *conversion) note(field, message string) {
	c.notes = append(c.notes, Note{Field: field, Message: message})
}

// component converts one key of the spec.
func (c *conversion) component(key string, value any) error {
	field := "spec." + key
	if why, is := foreign[key]; is {
		c.lose(field, why)
		return nil
	}
	name := key
	if ours, is := alias[key]; is {
		name = ours
		c.note(field, "is "+ours+" here")
	}
	if _, twice := c.spec[name]; twice {
		return fmt.Errorf("%s: %s appears twice, under both of its names", field, name)
	}
	if err := known([]string{name}, map[string]any{}); err != nil {
		c.lose(field, "this operator has no such component")
		return nil
	}
	kept, ok := c.keep(field, []string{name}, value)
	if !ok {
		return nil
	}
	c.spec[name] = kept
	ours := c.schema.Properties[name]
	refused(field, &ours, kept, c.note)
	if fields, is := kept.(map[string]any); is && fields["notDeploy"] != true {
		c.defaults(field, name, fields)
	}
	return nil
}

// keep returns the part of a value that our types have; false if there is none.
func (c *conversion) keep(field string, path []string, value any) (any, bool) {
	err := known(path, value)
	if err == nil {
		return value, true
	}
	fields, is := value.(map[string]any)
	if !is || known(path, map[string]any{}) != nil {
		c.lose(field, reason(err))
		return nil, false
	}
	kept := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if v, ok := c.keep(field+"."+key, append(slices.Clone(path), key), fields[key]); ok {
			kept[key] = v
		}
	}
	return kept, true
}

// known returns an error unless our types have this value at a path of the spec, in this spelling.
func known(path []string, value any) error {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return strictyaml.UnmarshalJSON(data, &topsv1.GcuResourceSpec{})
}

// reason shortens an error of known.
func reason(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("it is a %s, but must be a %s", wrong.Value, wrong.Type.Kind())
	}
	return "this operator has no such field"
}

// defaults adds notes on unset fields whose defaults differ.
func (c *conversion) defaults(field, name string, fields map[string]any) {
	if theirs, differs := names[name]; differs && fields["name"] == nil {
		c.note(field+".name", fmt.Sprintf("is not set: there it is %s by default, here it has another one; set it to keep the name", theirs))
	}
	if name == "nfd" || name == "nightingale" || name == "volcano" {
		return // their images are set per part
	}
	if fields["version"] == nil {
		c.note(field+".version", "is not set: there it is "+defaultTag+" by default, here latest; set it to keep the version")
	}
	if name == "toolkit" && fields["image"] == nil {
		c.note(field+".image", "is not set: there it is container-toolkit by default, here gcu-runtime; set it to keep the image")
	}
}
