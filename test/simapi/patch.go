package simapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Patch is PATCH of a part of an object, as a strategic merge patch or a merge patch.
func (a *API) Patch(object client.Object, kind types.PatchType, data []byte, part, manager string) error {
	key := KeyOf(object)
	stored, ok := a.Objects[key]
	if !ok {
		return apierrors.NewNotFound(Resource(key), key.Name)
	}
	var sent struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Spec, Status json.RawMessage
	}
	if err := json.Unmarshal(data, &sent); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := unchanged(stored, sent.Metadata.UID, sent.Metadata.ResourceVersion); err != nil {
		return err
	}
	if raw := map[string]json.RawMessage{Spec: sent.Spec, Status: sent.Status}[part]; kind == types.MergePatchType && part != Main {
		return a.mergePart(stored, raw, object, part)
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	var after []byte
	switch kind {
	case types.StrategicMergePatchType:
		if _, custom := stored.(*topsv1.NodeUpgrade); custom {
			return apierrors.NewBadRequest("strategic merge patch of a custom resource")
		}
		after, err = strategicpatch.StrategicMergePatch(before, data, stored)
	case types.MergePatchType:
		after, err = mergePatch(before, data)
	default:
		return fmt.Errorf("the model knows no patch of type %s", kind)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	patched := reflect.New(reflect.TypeOf(stored).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, patched); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return a.storePart(stored, patched, object, part, manager)
}

// mergePart is a merge patch of the spec or the status alone. It refuses one that leaves an operation without its id, which the CRD requires:
// one of changes to a record that a restored backup took back, at a resourceVersion that is given out again.
func (a *API) mergePart(stored client.Object, patch []byte, answer client.Object, part string) error {
	next := Copy(stored)
	value := reflect.ValueOf(next).Elem().FieldByName(part)
	if len(patch) > 0 {
		if err := mergeInto(value, patch); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if was := reflect.ValueOf(stored).Elem().FieldByName(part); equal(was.Interface(), value.Interface()) {
		Into(answer, next)
		return nil
	}
	if part == Spec {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	if u, is := next.(*topsv1.NodeUpgrade); is && u.Status.Operation != nil && u.Status.Operation.ID == "" {
		return apierrors.NewInvalid(topsv1.GroupVersion.WithKind("NodeUpgrade").GroupKind(), u.Name, field.ErrorList{field.Required(field.NewPath("status", "operation", "id"), "")})
	}
	next, err := a.admit(next)
	if err != nil {
		return err
	}
	a.Put(next)
	Into(answer, next)
	return nil
}

// mergeInto is mergePatch on a decoded value: it decodes only what the patch has.
func mergeInto(value reflect.Value, patch []byte) error {
	to := value
	if to.Kind() == reflect.Pointer {
		to = reflect.New(to.Type().Elem()).Elem()
	}
	_, decodes := to.Addr().Interface().(json.Unmarshaler)
	switch {
	case string(patch) == "null":
		value.SetZero()
		return nil
	case patch[0] != '{':
		value.SetZero()
		return json.Unmarshal(patch, value.Addr().Interface())
	case decodes || to.Kind() != reflect.Struct:
		return mergeEncoded(value, patch)
	}
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			value.Set(to.Addr())
		}
		value = value.Elem()
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil {
		return err
	}
	for name, sub := range fields {
		field, err := fieldNamed(value, name)
		if err != nil {
			return err
		}
		if err := mergeInto(field, sub); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// fieldNamed returns the field of a struct that JSON gives a name.
func fieldNamed(value reflect.Value, name string) (reflect.Value, error) {
	for i := range value.NumField() {
		if field, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); field == name {
			return value.Field(i), nil
		}
	}
	return reflect.Value{}, fmt.Errorf("a %s has no field %q", value.Type().Name(), name)
}

// mergeEncoded is mergePatch on a decoded value that is not a struct, such as a map.
func mergeEncoded(value reflect.Value, patch []byte) error {
	before, err := json.Marshal(value.Interface())
	if err != nil {
		return err
	}
	after, err := mergePatch(before, patch)
	if err != nil {
		return err
	}
	value.SetZero()
	return json.Unmarshal(after, value.Addr().Interface())
}

// mergePatch is RFC 7386.
func mergePatch(document, patch []byte) ([]byte, error) {
	var d, p map[string]any
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	return json.Marshal(mergeMaps(d, p))
}

func mergeMaps(d, p map[string]any) map[string]any {
	if d == nil {
		d = map[string]any{}
	}
	for key, value := range p {
		sub, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(d, key)
		case isMap:
			old, _ := d[key].(map[string]any)
			d[key] = mergeMaps(old, sub)
		default:
			d[key] = value
		}
	}
	return d
}
