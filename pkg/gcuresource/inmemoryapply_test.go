package gcuresource

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Apply is server-side apply for one field owner that treats lists as atomic.
func (m *memoryAPI) Apply(_ context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	encoded, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(encoded, u); err != nil {
		return err
	}
	key, err := m.keyOf(u)
	if err != nil {
		return err
	}
	options := client.ApplyOptions{}
	options.ApplyOptions(opts)
	on := m
	if len(options.DryRun) > 0 {
		on = m.copied()
	}
	e, err := on.apply(key, u, options.Force != nil && *options.Force)
	if err != nil {
		return err
	}
	o.(interface{ SetUnstructuredContent(map[string]any) }).SetUnstructuredContent(runtime.DeepCopyJSON(e.object.Object))
	return nil
}

func (m *memoryAPI) apply(key objectKey, u *unstructured.Unstructured, force bool) (*entry, error) {
	before := m.entries[key]
	uid := u.GetUID()
	if uid != "" && (before == nil || before.object.GetUID() != uid) {
		return nil, apierrors.NewConflict(resourceOf(key.kind), key.name, errors.New("uid mismatch"))
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "uid")
	if before == nil {
		return m.create(key, u.Object, u.Object)
	}
	if !force && contradicts(before.object.Object, before.applied, u.Object) {
		return nil, apierrors.NewConflict(resourceOf(key.kind), key.name, errors.New("apply failed: conflict with another field manager"))
	}
	content := runtime.DeepCopyJSON(before.object.Object)
	withdraw(content, before.applied, u.Object)
	lay(content, u.Object)
	return m.replace(key, before, content, u.Object), nil
}

// contradicts reports whether a wanted field has another value that its owner did not apply.
func contradicts(live, applied, wanted map[string]any) bool {
	for k, v := range wanted {
		have, ok := live[k]
		if !ok {
			continue
		}
		inner, isMap := v.(map[string]any)
		if isMap {
			old, _ := applied[k].(map[string]any)
			below, _ := have.(map[string]any)
			if contradicts(below, old, inner) {
				return true
			}
			continue
		}
		if _, mine := applied[k]; !mine && !equality.Semantic.DeepEqual(have, v) {
			return true
		}
	}
	return false
}

// withdraw removes fields that were applied and are no longer wanted.
func withdraw(live, applied, wanted map[string]any) {
	for k, old := range applied {
		v, ok := wanted[k]
		if !ok {
			delete(live, k)
			continue
		}
		below, ok1 := live[k].(map[string]any)
		was, ok2 := old.(map[string]any)
		now, ok3 := v.(map[string]any)
		if ok1 && ok2 && ok3 {
			withdraw(below, was, now)
		}
	}
}

// lay merges the wanted fields into the live ones.
func lay(live, wanted map[string]any) {
	for k, v := range wanted {
		inner, isMap := v.(map[string]any)
		below, isThere := live[k].(map[string]any)
		if isMap && isThere {
			lay(below, inner)
			continue
		}
		live[k] = runtime.DeepCopyJSONValue(v)
	}
}
