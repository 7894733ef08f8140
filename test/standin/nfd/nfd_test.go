package nfd

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestFeaturesAreLabels(t *testing.T) {
	got, err := features(fstest.MapFS{
		"cards": {Data: []byte("pci-1e36.present\n\nenflame.com/gcu.count=2\n")},
		".half": {Data: []byte("pci-ffff.present\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"feature.node.kubernetes.io/pci-1e36.present": "true", "enflame.com/gcu.count": "2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLabelsOfOtherNamespacesNeedAFlag(t *testing.T) {
	m := master{allowed: []string{"enflame.com", ownNamespace}}
	got := m.permitted(map[string]string{"enflame.com/a": "1", "feature.node.kubernetes.io/b": "2", "kubernetes.io/c": "3", "d": "4"})
	if diff := cmp.Diff(map[string]string{"enflame.com/a": "1", "feature.node.kubernetes.io/b": "2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangeOf(t *testing.T) {
	for name, c := range map[string]struct {
		has    map[string]string
		before string
		wanted map[string]string
		want   map[string]any
	}{
		"a new label":                  {nil, "", map[string]string{"n/a": "1"}, change(map[string]any{"n/a": "1"}, "n/a")},
		"nothing to do":                {map[string]string{"n/a": "1"}, "n/a", map[string]string{"n/a": "1"}, nil},
		"an obsolete label is removed": {map[string]string{"n/a": "1", "n/b": "2"}, "n/a,n/b", map[string]string{"n/b": "2"}, change(map[string]any{"n/a": nil}, "n/b")},
		"a foreign label is kept":      {map[string]string{"n/c": "3"}, "", map[string]string{}, nil},
		"a removed label is restored":  {nil, "n/a", map[string]string{"n/a": "1"}, change(map[string]any{"n/a": "1"}, "n/a")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, changeOf(c.has, c.before, c.wanted)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func change(labels map[string]any, after string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": labels, "annotations": map[string]string{owned: after}}}
}
