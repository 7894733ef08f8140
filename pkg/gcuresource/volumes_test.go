package gcuresource

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Kubernetes binds a volume to no other claim than the one it names by UID.
func TestAVolumeWhoseClaimIsGoneIsMadeAgain(t *testing.T) {
	for phase, again := range map[corev1.PersistentVolumePhase]bool{corev1.VolumeReleased: true, corev1.VolumeBound: false, corev1.VolumeAvailable: false} {
		t.Run(string(phase), func(t *testing.T) {
			ctx := t.Context()
			s := inMemory(t)
			s.spec = topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{}}
			if err := errors.Join(deployAll(s), s.goOn(nil)); err != nil {
				t.Fatal(err)
			}
			mysql := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "enflame", Name: "mysql"}}
			before := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "mysql-pv"}}
			for _, o := range []client.Object{mysql, before} {
				if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			waiting, of := mysql.DeepCopy(), before.DeepCopy()
			waiting.Status.AvailableReplicas, of.Status.Phase = 0, phase
			err := errors.Join(s.api.Status().Patch(ctx, waiting, client.MergeFrom(mysql)), s.api.Status().Patch(ctx, of, client.MergeFrom(before)), s.goOn(nil))
			now := &corev1.PersistentVolume{}
			if err := errors.Join(err, s.api.Get(ctx, client.ObjectKeyFromObject(before), now)); err != nil || (now.UID != before.UID) != again {
				t.Errorf("made again: %t, want %t: %v", now.UID != before.UID, again, err)
			}
		})
	}
}
