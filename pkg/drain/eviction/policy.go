package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Policy is a parsed DrainPolicy. Get it from PolicyOf.
type Policy struct {
	scope              topsv1.DrainScope
	podSelector        labels.Selector
	resources, devices []string
	drivers            []string
	gracePeriodSeconds *int64
	jobs, timeout      time.Duration
	deleteEmptyDir     bool
	deleteUnmanaged    bool

	// own: see WithOwn.
	own map[types.UID]bool
	// replacesDriver and closed: see ReplacingDriver.
	replacesDriver bool
	closed         bool
}

// PolicyOf parses spec.drain of an UpgradePolicy; nil is the default. An invalid selector,
// which the API server does not check, is an error and never taken for another selector
// (invariant S12).
func PolicyOf(spec *topsv1.DrainPolicy) (Policy, error) {
	s := DefaultPolicy()
	if spec != nil {
		s = *spec
	}
	p := Policy{
		scope: s.Scope, podSelector: labels.Everything(), resources: s.Resources, devices: s.DevicePaths, drivers: s.Drivers,
		jobs:            time.Duration(s.WaitForJobsSeconds) * time.Second,
		timeout:         time.Duration(cmp.Or(s.TimeoutSeconds, DefaultPolicy().TimeoutSeconds)) * time.Second,
		deleteEmptyDir:  s.EmptyDir == topsv1.DrainDelete,
		deleteUnmanaged: s.Unmanaged == topsv1.DrainDelete,
	}
	if s.GracePeriodSeconds != nil {
		seconds := int64(*s.GracePeriodSeconds)
		p.gracePeriodSeconds = &seconds
	}
	if s.PodSelector == nil {
		return p, nil
	}
	var err error
	if p.podSelector, err = metav1.LabelSelectorAsSelector(s.PodSelector); err != nil {
		return p, fmt.Errorf("podSelector of drain: %w", err)
	}
	return p, nil
}

// All returns the policy for all pods of a node, not only those that use its accelerator.
func (p Policy) All() Policy {
	p.scope = topsv1.DrainAll
	return p
}

// Accelerator returns the policy for the pods that use the accelerator.
func (p Policy) Accelerator() Policy {
	p.scope = topsv1.DrainAccelerator
	return p
}

// WithOwn returns the policy with the UIDs of the operator's own DaemonSets, whose pods no drain
// evicts and no node counts among the users of its cards. Whatever labels and owners say, no other
// DaemonSet is own.
func (p Policy) WithOwn(own map[types.UID]bool) Policy {
	p.own = own
	return p
}

// WithResources returns the policy with further resources of the accelerator: those that the node's device
// plugin offers under names of the user.
func (p Policy) WithResources(further []corev1.ResourceName) Policy {
	p.resources = slices.Clip(p.resources)
	for _, name := range further {
		p.resources = append(p.resources, string(name))
	}
	return p
}

// ReplacingDriver returns the policy for the replacement of the driver, before which every pod
// that uses the accelerator has to leave. Those of DaemonSets that are not the operator's own leave
// once the node has the driver-upgrade taint, as they would come back before.
func (p Policy) ReplacingDriver(closed bool) Policy {
	p.replacesDriver, p.closed = true, closed
	return p
}

// Accelerates reports whether a resource of a node belongs to the accelerator.
func (p Policy) Accelerates(resource string) bool { return matchesAny(resource, p.resources) }

// DefaultPolicy repeats the defaults of the CRD, for an UpgradePolicy without drain and for
// no UpgradePolicy.
func DefaultPolicy() topsv1.DrainPolicy {
	return topsv1.DrainPolicy{
		Scope:          topsv1.DrainAccelerator,
		Resources:      []string{"enflame.com/*", "enflame-tech.com/*"},
		DevicePaths:    []string{"/dev/gcu*", "/dev/vgcu*"},
		Drivers:        []string{"*.enflame.com"},
		TimeoutSeconds: 300,
		EmptyDir:       topsv1.DrainBlock,
		Unmanaged:      topsv1.DrainBlock,
	}
}

// matchesAny reports whether s matches one of the patterns; a leading * matches any beginning,
// a trailing * any end.
func matchesAny(s string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		end, anyBeginning := strings.CutPrefix(pattern, "*")
		middle, anyEnd := strings.CutSuffix(end, "*")
		switch {
		case anyBeginning && anyEnd:
			return strings.Contains(s, middle)
		case anyBeginning:
			return strings.HasSuffix(s, end)
		case anyEnd:
			return strings.HasPrefix(s, middle)
		}
		return s == pattern
	})
}
