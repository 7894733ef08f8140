package gcuresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/world"
)

// cluster plays the rest of a cluster, one step at a time: the controllers of DaemonSets,
// Deployments and Jobs, kubelets, the replacement of outdated pods, the protection of volumes,
// the garbage collector. Its actions depend only on the current state, so that equal states stay
// equal.
type cluster struct {
	client.Client
	// acted is true if the last step changed something.
	acted bool
	// excluded, if not nil, is called when a pod goes because its DaemonSet excludes its node.
	excluded func(*appsv1.DaemonSet, *corev1.Pod, *corev1.Node)
	// late, if not nil, draws whether the controller of a DaemonSet misses a step.
	late func() bool
	// pullable, if not empty, is part of the image of every Job that completes.
	pullable string
	// lingers is how many steps the garbage collector needs; steps counts them.
	lingers, steps int
	// oneByOne: outdated pods are replaced on one node in a step, upgrades, "" if there is none yet.
	oneByOne bool
	upgrades string
}

func (c *cluster) step() error {
	c.acted, c.upgrades = false, ""
	c.steps++
	for _, play := range []func() error{c.collect, c.daemonSets, c.deployments, c.jobs, c.volumes} {
		if err := play(); err != nil {
			return err
		}
	}
	return nil
}

// changed records a change, unless it failed.
func (c *cluster) changed(err error) error {
	c.acted = c.acted || err == nil
	return err
}

func (c *cluster) daemonSets() error {
	var sets appsv1.DaemonSetList
	var nodes corev1.NodeList
	if err := errors.Join(c.List(context.Background(), &sets), c.List(context.Background(), &nodes)); err != nil {
		return err
	}
	for i := range sets.Items {
		if ds := &sets.Items[i]; ds.DeletionTimestamp == nil && ds.Labels[topsv1.LabelGcuResource] != "" && (c.late == nil || !c.late()) {
			if err := c.daemonSet(ds, nodes.Items); err != nil {
				return fmt.Errorf("playing DaemonSet %s: %w", ds.Name, err)
			}
		}
	}
	return nil
}

func (c *cluster) daemonSet(ds *appsv1.DaemonSet, nodes []corev1.Node) error {
	ctx := context.Background()
	hash, err := c.newest(ds)
	if err != nil {
		return err
	}
	for i := range nodes {
		pod := &corev1.Pod{}
		name := client.ObjectKey{Namespace: ds.Namespace, Name: c.podName(ds, nodes[i].Name)}
		err := c.Get(ctx, name, pod)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		there, wanted := err == nil, daemonset.ShouldRun(ds, &nodes[i]).Create
		if there && !wanted && c.excluded != nil {
			c.excluded(ds, pod, &nodes[i])
		}
		if there && (!wanted || daemonset.RevisionHash(pod) != hash && c.mayUpgrade(nodes[i].Name)) {
			if err := c.changed(c.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
				return err
			}
			there = false
		}
		if wanted && !there {
			if err := c.runPod(ds, nodes[i].Name, hash); err != nil {
				return err
			}
		}
	}
	if ds.Status.ObservedGeneration == ds.Generation {
		return nil
	}
	before := ds.DeepCopy()
	ds.Status.ObservedGeneration = ds.Generation
	return c.changed(c.Status().Patch(ctx, ds, client.MergeFrom(before)))
}

// podName returns the name of the pod of a DaemonSet on a node. While pods linger, one of a former DaemonSet of that name may
// be there too.
func (c *cluster) podName(ds *appsv1.DaemonSet, node string) string {
	if c.lingers == 0 {
		return ds.Name + "-" + node
	}
	return ds.Name + "-" + node + "-" + string(ds.UID)
}

// mayUpgrade reports whether the outdated pods on a node may be replaced in this step.
func (c *cluster) mayUpgrade(node string) bool {
	if !c.oneByOne {
		return true
	}
	if c.upgrades == "" {
		c.upgrades = node
	}
	return c.upgrades == node
}

// newest ensures that a revision of the template exists, and returns its hash.
func (c *cluster) newest(ds *appsv1.DaemonSet) (string, error) {
	template, err := json.Marshal(ds.Spec.Template)
	if err != nil {
		return "", err
	}
	sum := fnv.New32a()
	_, _ = sum.Write(template) // never fails
	hash := fmt.Sprintf("%x", sum.Sum32())
	var list appsv1.ControllerRevisionList
	if err := c.List(context.Background(), &list, client.InNamespace(ds.Namespace), client.MatchingLabels{component.LabelName: ds.Name}); err != nil {
		return "", err
	}
	number := int64(0)
	var known *appsv1.ControllerRevision
	for i := range list.Items {
		r := &list.Items[i]
		number = max(number, r.Revision)
		if r.Labels["controller-revision-hash"] == hash {
			known = r
		}
	}
	switch {
	case known == nil:
		return hash, c.changed(c.Create(context.Background(), &appsv1.ControllerRevision{ObjectMeta: dependentOf(ds, ds.Name+"-"+hash, hash),
			Revision: number + 1, Data: runtime.RawExtension{Raw: []byte("{}")}}))
	case known.Revision < number: // an earlier template is back
		before := known.DeepCopy()
		known.Revision = number + 1
		return hash, c.changed(c.Patch(context.Background(), known, client.MergeFrom(before)))
	}
	return hash, nil
}

func dependentOf(ds *appsv1.DaemonSet, name, hash string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: ds.Namespace,
		Labels: map[string]string{component.LabelName: ds.Name, "controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false)}}}
}

// runsAs is, on a pod, the component that it was made for.
const runsAs = "component"

// runPod starts a pod, unless one of the DaemonSets that it must not run beside has a pod there.
func (c *cluster) runPod(ds *appsv1.DaemonSet, node, hash string) error {
	if waits, err := c.waits(ds, node); waits || err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: dependentOf(ds, c.podName(ds, node), hash),
		Spec: corev1.PodSpec{NodeName: node, NodeSelector: ds.Spec.Template.Spec.NodeSelector, Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	pod.Annotations = map[string]string{runsAs: ds.Labels[topsv1.LabelComponent]}
	if gates := ds.Spec.Template.Spec.SchedulingGates; len(gates) > 0 {
		pod.Spec.NodeName, pod.Spec.SchedulingGates = "", gates
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
		return c.changed(c.Create(context.Background(), pod))
	}
	if err := c.changed(c.Create(context.Background(), pod)); err != nil {
		return err
	}
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(world.Noon)}}
	return c.Status().Patch(context.Background(), pod, client.MergeFrom(before))
}

// waits reports whether the scheduler has a pod wait for another one on its node.
func (c *cluster) waits(ds *appsv1.DaemonSet, node string) (bool, error) {
	affinity := ds.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return false, nil
	}
	for _, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		var others corev1.PodList
		if err := c.List(context.Background(), &others, client.InNamespace(term.Namespaces[0]), client.MatchingLabels(term.LabelSelector.MatchLabels)); err != nil {
			return false, err
		}
		if slices.ContainsFunc(others.Items, func(o corev1.Pod) bool { return o.Spec.NodeName == node }) {
			return true, nil
		}
	}
	return false, nil
}

func (c *cluster) deployments() error {
	var list appsv1.DeploymentList
	if err := c.List(context.Background(), &list); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.DeletionTimestamp != nil || d.Status.ObservedGeneration == d.Generation {
			continue
		}
		before := d.DeepCopy()
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		if err := c.changed(c.Status().Patch(context.Background(), d, client.MergeFrom(before))); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) jobs() error {
	var list batchv1.JobList
	if err := c.List(context.Background(), &list); err != nil {
		return err
	}
	for i := range list.Items {
		job := &list.Items[i]
		if job.DeletionTimestamp != nil || len(job.Status.Conditions) > 0 || !strings.Contains(job.Spec.Template.Spec.Containers[0].Image, c.pullable) {
			continue
		}
		if err := c.changed(finish(c, job, metav1.NewTime(world.Noon))); err != nil {
			return err
		}
	}
	return nil
}

// volumes releases volumes and claims that are being deleted.
func (c *cluster) volumes() error {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := errors.Join(c.List(context.Background(), &claims), c.List(context.Background(), &volumes)); err != nil {
		return err
	}
	var all []client.Object
	for i := range claims.Items {
		all = append(all, &claims.Items[i])
	}
	for i := range volumes.Items {
		all = append(all, &volumes.Items[i])
	}
	for _, o := range all {
		if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0 {
			continue
		}
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		if err := c.changed(c.Patch(context.Background(), o, client.MergeFrom(before))); err != nil {
			return err
		}
	}
	return nil
}

// collect deletes pods and revisions whose owner is gone.
func (c *cluster) collect() error {
	if c.lingers > 0 && c.steps%c.lingers > 0 {
		return nil
	}
	var pods corev1.PodList
	var revisions appsv1.ControllerRevisionList
	if err := errors.Join(c.List(context.Background(), &pods), c.List(context.Background(), &revisions)); err != nil {
		return err
	}
	var all []client.Object
	for i := range pods.Items {
		all = append(all, &pods.Items[i])
	}
	for i := range revisions.Items {
		all = append(all, &revisions.Items[i])
	}
	for _, o := range all {
		gone, err := c.orphaned(o)
		if err != nil {
			return err
		}
		if gone {
			if err := c.changed(c.Delete(context.Background(), o, client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphaned reports whether the DaemonSet or gr that controls an object is gone.
func (c *cluster) orphaned(o client.Object) (bool, error) {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return false, nil
	}
	var of client.Object = &appsv1.DaemonSet{}
	namespace := o.GetNamespace()
	if owner.Kind == topsv1.GcuResourceKind {
		of, namespace = &topsv1.GcuResource{}, ""
	}
	err := c.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: owner.Name}, of)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	return err != nil || of.GetUID() != owner.UID, nil
}
