package simapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Schema says which fields the CRDs lack, by kind, as paths such as status.inFlight[].turn. The API
// server drops them from what is written and from what is read. nil: none.
type Schema map[string][]string

// Prune returns an object without the fields that its CRD lacks, and which of these it had. It is the
// object itself if it had none.
func (s Schema) Prune(object client.Object) (pruned client.Object, dropped []string) {
	paths := s[KindOf(object)]
	if len(paths) == 0 {
		return object, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // objects of the API can be encoded
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	for _, path := range paths {
		if drop(fields, strings.Split(path, ".")) {
			dropped = append(dropped, path)
		}
	}
	if len(dropped) == 0 {
		return object, nil
	}
	if text, err = json.Marshal(fields); err != nil {
		panic(err)
	}
	pruned = reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(text, pruned); err != nil {
		panic(err)
	}
	return pruned, dropped
}

// drop removes a field, and reports whether it was there.
func drop(value any, path []string) (had bool) {
	name, list := strings.CutSuffix(path[0], "[]")
	fields, _ := value.(map[string]any)
	field, has := fields[name]
	switch {
	case !has:
		return false
	case len(path) == 1:
		delete(fields, name)
		return field != "" // that is how the Go type of a required field says that it is not there
	case !list:
		return drop(field, path[1:])
	}
	items, _ := field.([]any)
	for _, item := range items {
		had = drop(item, path[1:]) || had
	}
	return had
}

// Validated makes a write with a field validation, as a client asks for it.
func (a *API) Validated(validation string, write func() error) error {
	a.strict = validation == metav1.FieldValidationStrict
	defer func() { a.strict = false }()
	return write()
}

// admit drops the fields that the CRD of an object lacks, or refuses it, as the write in progress asks for.
func (a *API) admit(object client.Object) (client.Object, error) {
	pruned, dropped := a.Schema.Prune(object)
	if a.strict && len(dropped) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("strict decoding error: unknown field %q", dropped[0]))
	}
	return pruned, nil
}
