package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simHost is a machine, with or without a Node object.
type simHost struct {
	name   string
	labels map[string]string // besides its zone
	up     bool
	since  time.Time // when it went up or down
	upAt   time.Time // when it comes back; zero: not on its own
	unwell time.Time // until then its kubelet reports not Ready
	// podsFirst: when it comes back, its pods are Ready before the node.
	podsFirst bool
	// podsAfter is how long after it came back its pods are Ready.
	podsAfter time.Duration
	// skew is how far its clock, which its kubelet and its agent write times by, is ahead.
	skew time.Duration
	// before is how far it was ahead until it jumped.
	before time.Duration
	jumped time.Time
	// skews is how far it was ahead when it wrote a time.
	skews map[int64]time.Duration
	// machine is what runs below its kubelet, in a seed with operations.
	machine *simMachine
}

const (
	// simGrace is how long a silent node stays Ready.
	simGrace = 40 * time.Second
	// simRenewal is how often a kubelet renews its Lease.
	simRenewal = 10 * time.Second
)

// kubernetes runs the controllers and the kubelets.
func (w *simWorld) kubernetes() {
	for _, h := range w.hosts {
		if !h.up && !h.upAt.IsZero() && !w.now.Before(h.upAt) {
			w.power(h, true)
		}
		w.nodeLifecycle(h)
	}
	w.collectOrphans()
	w.listsAdvance()
	for _, ds := range simapi.All[*appsv1.DaemonSet](w.api, simSets) {
		w.leaves(ds)
		w.daemonSetController(ds)
	}
	for _, pod := range w.setPods() {
		w.kubelet(pod)
	}
}

func (w *simWorld) host(name string) *simHost {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

func (w *simWorld) power(h *simHost, up bool) {
	h.up, h.since, h.upAt, h.podsFirst, h.podsAfter = up, w.now, time.Time{}, w.chance(2), 0
	if !h.podsFirst && w.chance(2) {
		h.podsAfter = w.seconds(1, 25)
	}
	w.say("host %s up=%v", h.name, up)
	if up && h.machine != nil && w.chance(2) {
		w.reboots(h)
	}
}

func simNodeKey(name string) simapi.Key { return simapi.Key{Kind: simNodes, Name: name} }

func simNodeReady(node *corev1.Node) bool {
	ready, _ := daemonset.NodeReady(node)
	return ready
}

// lease reads the Lease of a host, which its kubelet renews every simRenewal while it is up.
func (h *simHost) lease(w *simWorld, lease *coordinationv1.Lease) error {
	until := w.now
	if !h.up {
		until = h.since
	}
	phase := time.Duration(w.hash("lease", h.name)%uint64(simRenewal/time.Millisecond)) * time.Millisecond
	at, skew := until.Add(-phase).Truncate(simRenewal).Add(phase), h.skew
	if at.Before(h.jumped) {
		skew = h.before
	}
	renewed := metav1.NewMicroTime(at.Add(skew))
	lease.Spec.RenewTime = &renewed
	return nil
}

// nodeLabels returns the labels of the host's Node object.
func (h *simHost) nodeLabels() map[string]string {
	return labels.Merge(h.labels, labels.Set{corev1.LabelTopologyZone: "z" + h.name[len(h.name)-1:]})
}

// addNode registers the node of a kubelet, and starts its agent.
func (w *simWorld) addNode(h *simHost) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: h.nodeLabels()}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: h.clock(w)}}
	w.api.Put(n)
	w.stays(h.name)
	if h.machine != nil {
		h.machine.foreign = false
		h.machine.excused = h.machine.restarting() // a restart that has begun runs to its end, without the cordon that went with the node
		return                                     // the agent creates its NodeUpgrade
	}
	w.api.Put(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: h.name}})
}

// nodeLifecycle sets the Ready condition and the taints of a node by what its kubelet reports.
func (w *simWorld) nodeLifecycle(h *simHost) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	if node == nil {
		return
	}
	now, want := node.Status.Conditions[0].Status, corev1.ConditionTrue
	switch {
	case !h.up && w.now.Sub(h.since) >= simGrace:
		want = corev1.ConditionUnknown
	case !h.up:
		want = now
	case w.now.Before(h.unwell):
		want = corev1.ConditionFalse
	case h.podsFirst && w.now.Sub(h.since) < 20*time.Second:
		want = now
	}
	if now == want {
		return
	}
	w.say("node %s Ready=%s", h.name, want)
	at := h.clock(w)
	if want == corev1.ConditionUnknown { // not by the kubelet
		at = fixture.WholeSecond(w.now)
	}
	simapi.Edit(w.api, simNodeKey(h.name), func(n *corev1.Node) {
		n.Status.Conditions[0].Status = want
		n.Status.Conditions[0].LastTransitionTime = at
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
		if want != corev1.ConditionTrue {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
		}
	})
	if want != corev1.ConditionTrue {
		w.podsNotReady(h.name)
	}
}

func (w *simWorld) podsNotReady(node string) {
	for _, pod := range w.setPods() {
		if pod.Spec.NodeName == node && simPodReady(pod) {
			w.setPodReady(pod, corev1.ConditionFalse, fixture.WholeSecond(w.now))
		}
	}
}

func simPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *simWorld) setPodReady(pod *corev1.Pod, status corev1.ConditionStatus, at metav1.Time) {
	w.works(pod, status)
	simapi.Edit(w.api, simapi.KeyOf(pod), func(p *corev1.Pod) {
		ready := corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: at}
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.PodReady {
				p.Status.Conditions[i] = ready
				return
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, ready)
	})
}

// kubelet starts, runs and ends one pod; it does nothing while its host is down.
func (w *simWorld) kubelet(pod *corev1.Pod) {
	key, nodeName := simapi.KeyOf(pod), daemonset.NodeName(pod)
	h := w.host(nodeName)
	if w.api.Objects[simNodeKey(nodeName)] == nil {
		if w.chance(3) { // pod garbage collection
			w.api.Remove(key)
		}
		return
	}
	age := w.now.Sub(pod.CreationTimestamp.Time)
	start := w.startOf(pod)
	image := pod.Spec.Containers[0].Image
	switch {
	case !h.up:
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		w.endPod(pod)
	case w.runsNothing(pod) || daemonset.AwaitsUpgrade(pod):
	case pod.Spec.NodeName == "" && !simSchedulable(simapi.Get[*corev1.Node](w.api, simNodeKey(nodeName)), pod):
	case pod.Spec.NodeName == "":
		w.runs(pod)
		simapi.Edit(w.api, key, func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.Affinity = nodeName, nil })
	case pod.DeletionTimestamp != nil:
		ends := time.Duration(w.hash("end", pod.UID)%20) * time.Second
		if w.now.Sub(pod.DeletionTimestamp.Time) >= ends {
			w.endPod(pod)
		}
	case simEnded(pod): // the DaemonSet controller replaces it
	case age < start || (!h.podsFirst && simTainted(w.api.Objects[simNodeKey(nodeName)].(*corev1.Node), corev1.TaintNodeUnreachable)):
	case w.now.Sub(h.since) < h.podsAfter: // the node is back, and its pods are not yet
	case strings.HasPrefix(image, "crash"):
		w.crashLoop(pod, age-start)
	case strings.HasPrefix(image, "hang"):
	case strings.HasPrefix(image, "relapse") && age-start >= w.relapsesAfter(image):
		w.relapse(pod, h, age-start)
	case w.spoiledFor(h, pod) > w.relapsesAfter(image):
		w.relapse(pod, h, w.spoiledFor(h, pod))
	case !simPodReady(pod):
		if strings.HasPrefix(image, "fuse") {
			w.burns(h, image)
		}
		kills := strings.HasPrefix(image, "kill") && !w.calm
		if !kills || w.chance(2) {
			w.setPodReady(pod, corev1.ConditionTrue, h.clock(w))
			if started := h.clock(w); h.machine != nil && pod.Status.StartTime == nil {
				simapi.Edit(w.api, key, func(p *corev1.Pod) { p.Status.StartTime = &started })
			}
			w.installs(h, pod)
		}
		if kills {
			w.say("version %s takes its node down", image)
			w.powerOff(h)
		}
	}
}

// startOf is how long after its creation a pod is Ready.
func (w *simWorld) startOf(pod *corev1.Pod) time.Duration {
	return time.Duration(2+w.hash("start", pod.UID)%38) * time.Second
}

// burns lets a version kill its node for good the seconds that end its image after the pod is Ready.
func (w *simWorld) burns(h *simHost, image string) {
	after, err := time.ParseDuration(image[strings.LastIndex(image, "-")+1:])
	if err != nil {
		w.violate("image %s: %v", image, err)
	}
	w.later(after, func() { w.power(h, false) })
}

func (w *simWorld) powerOff(h *simHost) {
	w.power(h, false)
	if w.rng.IntN(4) > 0 {
		h.upAt = w.now.Add(w.seconds(5, 1500))
	}
}

func (w *simWorld) crashLoop(pod *corev1.Pod, running time.Duration) {
	restarts := int32(min(running/(20*time.Second), 4))
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].RestartCount >= restarts {
		return
	}
	simapi.Edit(w.api, simapi.KeyOf(pod), func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: restarts, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
		}}}
	})
}

// simSlowly is the kind of versions whose containers run for minutes before they crash.
const simSlowly = "relapse-slowly"

// relapsesAfter is how long a container of a version runs before it crashes.
func (w *simWorld) relapsesAfter(image string) time.Duration {
	if strings.HasPrefix(image, simSlowly) {
		return time.Duration(45+w.hash("relapse", image)%255) * time.Second
	}
	return time.Duration(5+w.hash("relapse", image)%40) * time.Second
}

// relapse lets the container of a pod crash each time that it has run, and thus been Ready, for some time.
func (w *simWorld) relapse(pod *corev1.Pod, h *simHost, since time.Duration) {
	runs := w.relapsesAfter(pod.Spec.Containers[0].Image)
	ready, restarts := true, int32(0)
	for wait := 10 * time.Second; since >= runs; wait = min(2*wait, 5*time.Minute) {
		if since -= runs; since < wait {
			ready = false
			break
		}
		since -= wait
		restarts++
	}
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if !ready {
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	recorded := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		recorded = c.RestartCount
	}
	if ready == simPodReady(pod) && (!ready || restarts == recorded) { // a step may be longer than the time in which it is not Ready
		return
	}
	w.setPodReady(pod, map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready], h.clock(w))
	simapi.Edit(w.api, simapi.KeyOf(pod), func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: restarts, State: state,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(h.clock(w).Time), StartedAt: metav1.NewTime(h.clock(w).Add(-runs))}}}}
	})
}

func simTainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// simKeeps reports whether the pod of a DaemonSet stays on a node.
func simKeeps(node *corev1.Node, ds *appsv1.DaemonSet) bool {
	for label, value := range ds.Spec.Template.Spec.NodeSelector {
		if node.Labels[label] != value {
			return false
		}
	}
	return !simForeign(node, corev1.TaintEffectNoExecute)
}

// simForeignTaint is the prefix of the taints of others.
const simForeignTaint = "example.com/"

// simForeign reports whether somebody else tainted a node; no DaemonSet of the model
// tolerates that.
func simForeign(node *corev1.Node, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, simForeignTaint) && t.Effect == effect
	})
}

// simAdmits reports whether the taints of a node admit the pods of a DaemonSet.
func simAdmits(node *corev1.Node, ds *appsv1.DaemonSet) bool {
	return simKeeps(node, ds) && !simForeign(node, corev1.TaintEffectNoSchedule) && !simTainted(node, corev1.TaintNodeUnreachable) &&
		(len(ds.Spec.Template.Spec.Tolerations) > 0 || !simTainted(node, topsv1.TaintDriverUpgrade))
}

// simSchedulable reports whether the scheduler binds a pod to its node.
func simSchedulable(node *corev1.Node, pod *corev1.Pod) bool {
	return simAdmits(node, &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: pod.Spec}}})
}

func (w *simWorld) newPod(ds *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ds.Namespace, Name: w.freeName(simapi.KeyOf(ds), node).Name,
		Labels:          simWithHash(ds, hash),
		OwnerReferences: fixture.ControlledBy(appsv1.SchemeGroupVersion.String(), observed.KindDaemonSet, ds.Name, ds.UID),
	}}
	pod.Spec = *ds.Spec.Template.Spec.DeepCopy()
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
	return pod
}

// writeHistory makes the revision of the template the newest and returns its hash; it reuses an
// existing one, as after a rollback.
func (w *simWorld) writeHistory(ds *appsv1.DaemonSet) string {
	hash := simImageHash(ds.Spec.Template.Spec.Containers[0].Image)
	if daemonset.IsLeaving(ds) {
		hash += "gated"
	}
	key := simapi.Named(simRevisions, ds.Namespace, ds.Name+"-"+hash)
	newest := int64(0)
	for _, r := range w.revisionsOf(ds) {
		newest = max(newest, r.Revision)
	}
	stored := simapi.Get[*appsv1.ControllerRevision](w.api, key)
	switch {
	case stored == nil:
		w.api.Put(&appsv1.ControllerRevision{Revision: newest + 1, Data: simTemplateOf(ds), ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: simWithHash(ds, hash),
			OwnerReferences: fixture.ControlledBy(appsv1.SchemeGroupVersion.String(), observed.KindDaemonSet, ds.Name, ds.UID),
		}})
	case stored.Revision < newest:
		simapi.Edit(w.api, key, func(r *appsv1.ControllerRevision) { r.Revision = newest + 1 })
	}
	return hash
}

// simWithHash returns the labels of a pod or revision of a DaemonSet.
func simWithHash(ds *appsv1.DaemonSet, hash string) map[string]string {
	return labels.Merge(ds.Spec.Template.Labels, labels.Set{appsv1.ControllerRevisionHashLabelKey: hash})
}

// simImageHash returns the hash of the revision with an image.
func simImageHash(image string) string { return fmt.Sprintf("%08x", uint32(simHashOf(image))) }

func simHashOf(image string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(image) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func (w *simWorld) revisionsOf(ds *appsv1.DaemonSet) []*appsv1.ControllerRevision {
	var list []*appsv1.ControllerRevision
	for _, r := range simapi.All[*appsv1.ControllerRevision](w.api, simRevisions) {
		if metav1.IsControlledBy(r, ds) {
			list = append(list, r)
		}
	}
	return list
}

// newestHash returns the true target: the newest revision that exists.
func (w *simWorld) newestHash(ds *appsv1.DaemonSet) string {
	newest, hash := int64(-1), ""
	for _, r := range w.revisionsOf(ds) {
		if r.Revision > newest {
			newest, hash = r.Revision, daemonset.RevisionHash(r)
		}
	}
	return hash
}
