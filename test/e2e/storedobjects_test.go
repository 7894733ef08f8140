package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// keep writes what is stored of the stage into a file of the folder STORED, if that is set: the fixtures in
// test/stored/testdata. It waits until when returns nil; nil: until nothing changed for a while. Of nodes and pods
// it keeps what the manager reads. What there is once for each node has a line.
func (s *stage) keep(ctx context.Context, t *testing.T, file string, when func() error) {
	t.Helper()
	folder := os.Getenv("STORED")
	if folder == "" {
		return
	}
	items, since := "", time.Now()
	if when == nil {
		when = func() error {
			if now := s.items(ctx, t); now != items {
				items, since = now, time.Now()
			}
			if time.Since(since) < 5*time.Second {
				return errors.New("it is in motion")
			}
			return nil
		}
	}
	s.eventually(ctx, t, when)
	if items == "" {
		items = s.items(ctx, t)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: List\ntime: %q\nitems:\n%s", time.Now().UTC().Format(time.RFC3339), items)
	if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// items returns what is stored of the stage, as items of a list.
func (s *stage) items(ctx context.Context, t *testing.T) string {
	t.Helper()
	var text strings.Builder
	owners := map[types.UID]bool{}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"), topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind), topsv1.GroupVersion.WithKind("DaemonRollout"),
		topsv1.GroupVersion.WithKind("UpgradePlan"), topsv1.GroupVersion.WithKind("UpgradePolicy"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
		topsv1.GroupVersion.WithKind("NodeUpgrade"), corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		if err := s.Client.List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			if !s.has(u, owners) {
				continue
			}
			owners[u.GetUID()] = true
			if by := metav1.GetControllerOf(u); by != nil && kind.Kind == "DaemonSet" {
				owners[by.UID] = true
			}
			reduce(u)
			text.WriteString(item(t, u))
		}
	}
	return text.String()
}

// has reports whether an object belongs to the stage: to its nodes, or to one of owners.
func (s *stage) has(u *unstructured.Unstructured, owners map[types.UID]bool) bool {
	switch u.GetKind() {
	case "DaemonSet":
		label, _, _ := unstructured.NestedString(u.Object, "spec", "template", "spec", "nodeSelector", stageLabel)
		return label == s.label
	case topsv1.GcuResourceKind:
		return owners[u.GetUID()]
	case "Node", "NodeUpgrade":
		return slices.Contains(s.nodes, u.GetName())
	case "UpgradePlan":
		gr, _, _ := unstructured.NestedString(u.Object, "spec", "gcuResource")
		return strings.HasSuffix(gr, "-"+s.id)
	case "UpgradePolicy":
		return strings.HasSuffix(u.GetName(), "-"+s.id)
	}
	by := metav1.GetControllerOf(u)
	return by != nil && owners[by.UID]
}

// reduce removes what is not ours and is not read.
func reduce(u *unstructured.Unstructured) {
	u.SetManagedFields(nil)
	switch u.GetKind() {
	case "Node":
		only(u.Object, []string{"conditions", "allocatable"}, "status")
		each(u.Object, func(c map[string]any) bool { return c["type"] == "Ready" }, "status", "conditions")
	case "Pod":
		u.SetGenerateName("")
		only(u.Object, []string{"nodeName", "schedulingGates", "containers"}, "spec")
		only(u.Object, []string{"conditions", "containerStatuses", "phase", "startTime"}, "status")
		each(u.Object, func(c map[string]any) bool { only(c, []string{"name", "image"}); return true }, "spec", "containers")
		each(u.Object, func(c map[string]any) bool {
			delete(c, "lastProbeTime")
			return c["type"] != "PodReadyToStartContainers" && c["type"] != "Initialized"
		}, "status", "conditions")
		each(u.Object, func(c map[string]any) bool { delete(c, "imageID"); return true }, "status", "containerStatuses")
	}
}

// only removes all but some fields of a part of an object.
func only(object map[string]any, fields []string, at ...string) {
	part, _, _ := unstructured.NestedFieldNoCopy(object, at...)
	is, _ := part.(map[string]any)
	maps.DeleteFunc(is, func(field string, _ any) bool { return !slices.Contains(fields, field) })
}

// each changes each item of a list in an object, and removes it unless keeps returns true.
func each(object map[string]any, keeps func(map[string]any) bool, at ...string) {
	list, _, _ := unstructured.NestedSlice(object, at...)
	list = slices.DeleteFunc(list, func(item any) bool {
		is, ok := item.(map[string]any)
		return ok && !keeps(is)
	})
	_ = unstructured.SetNestedSlice(object, list, at...) // it was one
}

// item writes an object as an item of a list.
func item(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	object, err := json.Marshal(u.Object)
	if slices.Contains([]string{topsv1.GcuResourceKind, "DaemonRollout", "UpgradePlan", "UpgradePolicy"}, u.GetKind()) && err == nil {
		object, err = yaml.JSONToYAML(object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "- " + strings.ReplaceAll(strings.TrimSpace(string(object)), "\n", "\n  ") + "\n"
}
