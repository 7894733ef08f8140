package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/world"
)

// Default names of DaemonSets.
const driverName, toolkitName, exporterName = "enflame-gcu-driver", "enflame-gcu-docker-plugin", "enflame-gcu-exporter"

// running returns how many pods of a component are on each node.
func (s *scene) running(component string) (map[string]int, error) {
	var pods corev1.PodList
	on := map[string]int{}
	err := s.api.List(context.Background(), &pods)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Annotations[runsAs] == component && !daemonset.IsPlaceholder(pod) {
			on[pod.Spec.NodeName]++
		}
	}
	return on, err
}

// apart takes turns, and returns an error if two pods of one component are on a node at the same time.
func (s *scene) apart(turns int) error {
	for range turns {
		if err := errors.Join(s.turn(), s.rest.step()); err != nil {
			return err
		}
		for _, component := range []string{"driver", "toolkit"} {
			on, err := s.running(component)
			if err != nil {
				return err
			}
			for node, n := range on {
				if n > 1 {
					return fmt.Errorf("%d pods of %s are on %s", n, component, node)
				}
			}
		}
	}
	return nil
}

// keeps returns an error unless each component still has the DaemonSet of its default name, and that does not leave. Those with the
// name another have moved.
func (s *scene) keeps(present map[string]string) error {
	for component, name := range map[string]string{"driver": driverName, "toolkit": toolkitName, "exporter": exporterName} {
		ds := &appsv1.DaemonSet{}
		if present[name] == "another" {
			continue
		}
		if err := s.api.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: name}, ds); err != nil {
			return err
		}
		if daemonset.Component(ds) != component || daemonset.IsLeaving(ds) {
			return fmt.Errorf("%s is no longer that of %s, or leaves: %v", name, component, ds.Labels)
		}
	}
	return nil
}

// A name that goes from one component to another is taken over when what had it is gone, with its pods.
func TestANameMovesToAnotherComponent(t *testing.T) {
	const slowly = "AdvancedRollingUpdate"
	type conflict struct{ name, of, by string }
	says := func(c conflict) func(topsv1.ResourceStatus) bool {
		return func(r topsv1.ResourceStatus) bool {
			return r.Status == "failed" && r.Name == c.by && strings.HasPrefix(r.Message, "DaemonSet kube-system/"+c.name+" is") &&
				strings.Contains(r.Message, "that of "+c.of+",") && strings.HasSuffix(r.Message, ": give "+c.by+" another name")
		}
	}
	for name, tc := range map[string]struct {
		driver, toolkit, exporter string // "" for a removed one
		// strategies with which the names move, and why they do not with another one.
		strategies []string
		refused    conflict
	}{
		"the driver gets another name":                  {"another", toolkitName, exporterName, []string{"", slowly}, conflict{}},
		"the driver gets the name of the toolkit":       {toolkitName, "another", exporterName, []string{""}, conflict{toolkitName, "toolkit", "driver"}},
		"the toolkit gets the name of the driver":       {"another", driverName, exporterName, []string{""}, conflict{driverName, "driver", "toolkit"}},
		"they exchange their names":                     {toolkitName, driverName, exporterName, []string{""}, conflict{toolkitName, "toolkit", "driver"}},
		"the driver gets that of a removed one":         {exporterName, toolkitName, "", []string{"", slowly}, conflict{}},
		"the driver gets that of the exporter":          {exporterName, toolkitName, exporterName, nil, conflict{exporterName, "exporter", "driver"}},
		"the driver gets that of the toolkit":           {toolkitName, toolkitName, exporterName, nil, conflict{toolkitName, "toolkit", "driver"}},
		"what had it gets one that is taken":            {exporterName, toolkitName, "taken", nil, conflict{exporterName, "exporter", "driver"}},
		"the one after it gets the one before":          {exporterName, driverName, "taken", nil, conflict{exporterName, "exporter", "driver"}},
		"each gets the next one's, the last fails":      {toolkitName, exporterName, "taken", nil, conflict{toolkitName, "toolkit", "driver"}},
		"each gets the next one's, the last is refused": {toolkitName, exporterName, "refused", nil, conflict{toolkitName, "toolkit", "driver"}},
	} {
		for _, strategy := range []string{"", slowly} {
			t.Run(name+" "+strategy, func(t *testing.T) {
				s := inMemory(t)
				s.spec = world.OnNodes()
				s.rest.lingers, s.rest.oneByOne = 3, true
				refusesAll(apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind(), "refused", nil), "apply DaemonSet refused")(s.line)
				edit := func(gr *topsv1.GcuResource) {
					delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
					if strategy != "" {
						gr.Annotations[topsv1.AnnotationUpdateStrategy] = strategy
					}
					gr.Spec.Driver.Name, gr.Spec.Toolkit.Name = tc.driver, tc.toolkit
					if gr.Spec.Exporter.Name = tc.exporter; tc.exporter == "" {
						gr.Spec.Exporter = nil
					}
				}
				foreign := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "taken"}}
				if err := errors.Join(s.api.Create(t.Context(), foreign), deployAll(s), s.apart(30), s.edit(edit), s.apart(60)); err != nil {
					t.Fatal(err)
				}
				gr, err := s.gr()
				if err != nil {
					t.Fatal(err)
				}
				moves := slices.Contains(tc.strategies, strategy)
				if moves != (gr.Status.Phase == "Running") {
					t.Errorf("the gr is %s: %+v", gr.Status.Phase, gr.Status.Conditions)
				}
				if !moves && !slices.ContainsFunc(gr.Status.ResourceStatuses, says(tc.refused)) {
					t.Errorf("it does not say that %+v: %+v", tc.refused, gr.Status.ResourceStatuses)
				}
				if err := s.keeps(map[string]string{driverName: tc.driver, toolkitName: tc.toolkit}); !moves && err != nil {
					t.Error(err)
				}
				for component, name := range map[string]string{"driver": tc.driver, "toolkit": tc.toolkit} {
					ds := &appsv1.DaemonSet{}
					on, err := s.running(component)
					if err != nil || len(on) != len(sceneNodes) {
						t.Errorf("%s runs on %v: %v", component, on, err)
					}
					if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, ds); moves && (err != nil || daemonset.Component(ds) != component) {
						t.Errorf("%s is of %s: %v", name, daemonset.Component(ds), err)
					}
				}
			})
		}
	}
}
