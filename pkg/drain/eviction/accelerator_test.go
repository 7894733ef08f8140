package eviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestWhichPodsUseTheAccelerator(t *testing.T) {
	resources := func(name, quantity string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(quantity)}
		}
	}
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"a limit of a whole card", pod("a"), true},
		{"a limit of a shared card", pod("a", resources("enflame.com/shared-gcu", "1")), true},
		{"a limit under the other domain", pod("a", resources("enflame-tech.com/gcu", "1")), true},
		{"a limit of no card", pod("a", resources("enflame.com/gcu", "0")), false},
		{"a limit of somebody else's card", pod("a", resources("example.com/gcu", "1")), false},
		{"a domain that ends like ours", pod("a", resources("not-enflame.com/gcu", "1")), false},
		{"a request", pod("a", withoutGCU, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = gcus("1") }), true},
		{"an init container", pod("a", withoutGCU, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Limits: gcus("2")}}}
		}), true},
		{"a device as a volume", pod("a", withoutGCU, withHostPath("/dev/gcu0")), true},
		{"a virtual device as a volume", pod("a", withoutGCU, withHostPath("/dev/vgcu3/")), true},
		{"another device as a volume", pod("a", withoutGCU, withHostPath("/dev/fuse")), false},
		{"devices from the runtime", pod("a", withoutGCU, withEnv("ENFLAME_VISIBLE_DEVICES", "all")), true},
		{"no devices from the runtime", pod("a", withoutGCU, withEnv("ENFLAME_VISIBLE_DEVICES", "none")), false},
		{"another variable", pod("a", withoutGCU, withEnv("VISIBLE", "all")), false},
		{"nothing of the kind", pod("a", withoutGCU, withEmptyDir), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := policyOf(t, nil)
			if got := usesAccelerator(&tc.pod, nil, &p); got != tc.want {
				t.Errorf("usesAccelerator is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestThePolicyNamesResourcesAndDevices(t *testing.T) {
	p := policyOf(t, &topsv1.DrainPolicy{Scope: topsv1.DrainAccelerator, TimeoutSeconds: 1,
		Resources: []string{"example.com/chip"}, DevicePaths: []string{"/dev/chip"}})
	for name, want := range map[corev1.ResourceName]bool{"example.com/chip": true, "example.com/chips": false, "enflame.com/gcu": false} {
		asks := pod("a", withoutGCU)
		asks.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse("1")}
		if got := usesAccelerator(&asks, nil, &p); got != want {
			t.Errorf("resource %s: %t, want %t", name, got, want)
		}
	}
	for path, want := range map[string]bool{"/dev/chip": true, "/dev/chip0": false, "/dev/gcu0": false} {
		mounts := pod("a", withoutGCU, withHostPath(path))
		if got := usesAccelerator(&mounts, nil, &p); got != want {
			t.Errorf("path %s: %t, want %t", path, got, want)
		}
	}
}

func TestThePolicyNamesDrivers(t *testing.T) {
	for _, tc := range []struct {
		pattern, driver string
		want            bool
	}{
		{"*.enflame.com", "gcu.enflame.com", true},
		{"*.enflame.com", "enflame.com", false},
		{"*.enflame.com", "gcu.not-enflame.com", false},
		{"*.enflame.com", "gcu.enflame.com.example.com", false},
		{"gcu.example.*", "gcu.example.org", true},
		{"gcu.example.*", "a.gcu.example.org", false},
		{"*gcu*", "a.gcu.example.org", true},
		{"*gcu*", "a.gpu.example.org", false},
		{"gcu.example.com", "gcu.example.com", true},
		{"gcu.example.com", "gcu.example.com.org", false},
	} {
		p := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.Drivers = []string{tc.pattern} }))
		claims := pod("a", withoutGCU)
		if got := usesAccelerator(&claims, []string{"nic.example.com", tc.driver}, &p); got != tc.want {
			t.Errorf("%s of %s: %t, want %t", tc.driver, tc.pattern, got, tc.want)
		}
	}
}

func policyOf(t *testing.T, spec *topsv1.DrainPolicy) Policy {
	t.Helper()
	p, err := PolicyOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Who has a card is looked for whatever the drain evicts.
func TestTheUsersOfCardsAreFoundUnderEveryScope(t *testing.T) {
	uses := pod("a")
	for _, scope := range []topsv1.DrainScope{topsv1.DrainAccelerator, topsv1.DrainAll, topsv1.DrainNone} {
		p := policyOf(t, &topsv1.DrainPolicy{Scope: scope, TimeoutSeconds: 1, Resources: []string{"enflame.com/gcu"}})
		if !p.Accelerator().Concerns(&uses) {
			t.Errorf("scope %s: a pod with a card is not seen", scope)
		}
	}
}
