package servedschema

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/message"
)

// Missing returns the fields that a Go value of this type would write and that a schema lacks, as
// sorted paths such as status.inFlight[].turn. A field that is missing stands for those below it.
// Metadata is the API server's own.
func Missing(s *Schema, of reflect.Type) []string {
	var paths []string
	walk(s, of, "", &paths)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Older is the error of a CRD that lacks fields.
type Older struct {
	Kind    string
	Missing []string
}

// Error says which fields of a kind are missing, and what to do about it.
func (o *Older) Error() string {
	return fmt.Sprintf("the CRD of %s is older than this manager and lacks %s, which the API server would drop: "+
		"apply the CRDs of this version first (kubectl apply --server-side -k config/crd)", o.Kind, message.Names(o.Missing))
}

func walk(s *Schema, of reflect.Type, path string, paths *[]string) {
	if s == nil {
		*paths = append(*paths, path)
		return
	}
	if s.PreservesUnknown || isLeaf(of) {
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		walk(s, of.Elem(), path, paths)
	case reflect.Slice, reflect.Array:
		if of.Elem().Kind() != reflect.Uint8 {
			walk(s.Items, of.Elem(), path+"[]", paths)
		}
	case reflect.Map:
		walk(s.values(), of.Elem(), path+"{}", paths)
	case reflect.Struct:
		for i := range of.NumField() {
			walkField(s, of.Field(i), path, paths)
		}
	}
}

func walkField(s *Schema, f reflect.StructField, path string, paths *[]string) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "" && f.Anonymous:
		walk(s, f.Type, path, paths)
	case name != "-" && f.IsExported():
		name = cmp.Or(name, f.Name)
		walk(s.property(name), f.Type, strings.TrimPrefix(path+"."+name, "."), paths)
	}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	metadata      = reflect.TypeFor[metav1.ObjectMeta]()
)

// isLeaf reports whether the fields of a Go type are not those of its JSON.
func isLeaf(of reflect.Type) bool {
	writesItself := func(t reflect.Type) bool { return t.Implements(marshaler) || t.Implements(textMarshaler) }
	return of == metadata || writesItself(of) || of.Kind() != reflect.Pointer && writesItself(reflect.PointerTo(of))
}
