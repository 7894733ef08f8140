package access

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

func TestIsStale(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "daemonrollouts"}, "driver", errors.New("changed"))
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "daemonrollouts"}, "driver")
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Message: `admission webhook "w" denied the request: no`}}
	broken500 := apierrors.NewInternalError(errors.New("etcd is away"))
	wrapped := fmt.Errorf("storing the ledger: %w", conflict)
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"a conflict", conflict, true},
		{"a wrapped conflict", wrapped, true},
		{"an object that exists already", exists, true},
		{"a denial with that code", denied, false},
		{"a DaemonSet that changed", podreplace.ErrChanged, true},
		{"another error", broken500, false},
		{"an object that is not found", apierrors.NewNotFound(schema.GroupResource{}, "x"), false},
		{"only such errors", errors.Join(podreplace.ErrChanged, wrapped), true},
		{"such an error and another", errors.Join(wrapped, broken500), false},
		{"another error and such", errors.Join(broken500, podreplace.ErrChanged), false},
		{"another error deep down", errors.Join(podreplace.ErrChanged, errors.Join(wrapped, broken500)), false},
		{"only such errors deep down", errors.Join(podreplace.ErrChanged, errors.Join(wrapped, exists)), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsStale(tt.err); got != tt.want {
				t.Errorf("IsStale(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

func TestASlotIsCorrectedOnlyWhenThePodThatItNamesCannotCome(t *testing.T) {
	pod := func(uid types.UID, version string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	seen := &rollout.Pod{UID: "seen", Version: "5"}
	tests := []struct {
		name  string
		named types.UID
		live  []corev1.Pod
		want  bool
	}{
		{"the pod seen is there, older than it is named", "seen", []corev1.Pod{pod("other", "7"), pod("seen", "5")}, true},
		{"the pod seen is there, and another was named", "lost", []corev1.Pod{pod("seen", "5")}, true},
		{"the pod named is there beside the one seen", "named", []corev1.Pod{pod("seen", "5"), pod("named", "9")}, false},
		{"the cache is behind", "seen", []corev1.Pod{pod("seen", "9")}, false},
		{"the pod seen is gone", "seen", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rollout.Reversed{Slot: &rollout.Slot{Pod: tt.named, PodVersion: "9"}, Seen: seen}
			if got := isReversed(&r, tt.live); got != tt.want {
				t.Errorf("isReversed = %v, want %v", got, tt.want)
			}
		})
	}
}
