package v1

import corev1 "k8s.io/api/core/v1"

// Annotations that say how a GcuResource or any DaemonSet is upgraded. A
// GcuResource's are carried onto the DaemonSets it renders. The OpenYurt keys
// mean the same; ours win when both are set.
const (
	// AnnotationUpdateStrategy is AdvancedRollingUpdate or OTA, in any case.
	// Absent: pods are not replaced.
	AnnotationUpdateStrategy = "topsops.enflame.com/update-strategy"
	// AnnotationMaxUnavailable is a count or a percentage of nodes, default 10%.
	AnnotationMaxUnavailable = "topsops.enflame.com/max-unavailable"
	// AnnotationUpgradePolicy names an UpgradePolicy.
	AnnotationUpgradePolicy = "topsops.enflame.com/upgrade-policy"
	// AnnotationPaused "true" starts nothing new; what is in flight finishes.
	AnnotationPaused = "topsops.enflame.com/paused"

	// AnnotationUpgradeOnly limits an upgrade to some nodes, some components, or both:
	// nodes=NAME,…;components=KEY,… where a component is its key in the spec of a
	// GcuResource. What it leaves out waits. Absent: everything.
	AnnotationUpgradeOnly = "topsops.enflame.com/upgrade-only"
	// AnnotationUpgradePlan names the UpgradePlan that is in force. What is not in it waits. Absent:
	// none.
	AnnotationUpgradePlan = "topsops.enflame.com/upgrade-plan"
	// AnnotationNotPlanned, on an UpgradePlan, names the nodes that the plan lacks because they were in
	// flight, or waited for something, when it was written. It is for the person who edits the plan. Absent: none.
	AnnotationNotPlanned = "topsops.enflame.com/not-planned"

	// AnnotationApprovedWaves, on a DaemonRollout, lists the waves a person
	// approved, comma-separated, each as revision/wave, or revision/plan/batch@version
	// for a batch of a plan. Messages print the value to use. An approval is valid for one revision; the
	// approval of a batch also only for one version of the plan.
	AnnotationApprovedWaves = "topsops.enflame.com/approved-waves"

	// AnnotationResume, on a DaemonRollout, resumes a halted rollout: a new value,
	// such as the date, clears the failure count.
	AnnotationResume = "topsops.enflame.com/resume"

	// AnnotationTaskOverride, on a NodeUpgrade, acts on one task of the node: VERB:TASK, with an optional
	// :NOTE that makes a repeated value a new one. VERB is retry, skip or undo; TASK is the name of the task.
	//
	// retry and skip are for a task of the running operation. A value is acted on once, and only by the
	// operation that is running when it is set.
	//
	// undo:NODE_TARGET_replace, while no operation runs on the node, brings the node back to the previous
	// revision and keeps it there until retry:NODE_TARGET_replace or another target. TARGET is a component, the
	// name of a DaemonSet, or NAMESPACE.NAME. A NOTE that begins with "from=HASH " names the revision that the node
	// is to leave: if another one is the newest when the value is read, it is rejected. status.tasks has the
	// answer.
	AnnotationTaskOverride = "topsops.enflame.com/task-override"

	// AnnotationHold, on a NodeUpgrade, is an administrator's hold: the node is excluded
	// from upgrades, and what is in flight on it continues. Any value counts; the plugin
	// writes the time in RFC 3339, and a message after a blank. A hold made on the node
	// itself is in status.agent.hold.
	AnnotationHold = "topsops.enflame.com/hold"

	// AnnotationRollbackTo, on a GcuResource, brings an earlier spec back: the name
	// of its revision, or RollbackToPrevious. The operator removes it in the write
	// that restores the spec; it stays when there is no such revision.
	AnnotationRollbackTo = "topsops.enflame.com/rollback-to"
	// AnnotationRolledBackTo, on a GcuResource, names the revision its spec was
	// restored from. The operator writes it, and removes it when the spec changes.
	AnnotationRolledBackTo = "topsops.enflame.com/rolled-back-to"

	// OpenYurtAnnotationUpdateStrategy is accepted for AnnotationUpdateStrategy;
	// its legacy value Auto means AdvancedRollingUpdate.
	OpenYurtAnnotationUpdateStrategy = "apps.openyurt.io/update-strategy"
	// OpenYurtAnnotationMaxUnavailable is accepted for AnnotationMaxUnavailable.
	OpenYurtAnnotationMaxUnavailable = "apps.openyurt.io/max-unavailable"
)

// RollbackToPrevious is a value of AnnotationRollbackTo: the newest revision of
// the spec other than the current one.
const RollbackToPrevious = "previous"

// UpgradeAnnotations are the keys a GcuResource carries onto its DaemonSets.
var UpgradeAnnotations = []string{
	AnnotationUpdateStrategy,
	AnnotationMaxUnavailable,
	AnnotationUpgradePolicy,
	AnnotationPaused,
	AnnotationUpgradeOnly,
	AnnotationUpgradePlan,
	OpenYurtAnnotationUpdateStrategy,
	OpenYurtAnnotationMaxUnavailable,
}

const (
	// LabelGcuPresent marks a node with an Enflame GCU. It is the operator's
	// own label and the default nodeSelector of the GCU components.
	LabelGcuPresent = "enflame.com/gcu.present"
	// AnnotationOwnedLabels lists, on a Node, the labels this operator set.
	AnnotationOwnedLabels = "topsops.enflame.com/owned-labels"

	// AnnotationCordonedBy is, on a Node that the operator cordoned, the id of the
	// operation it did so for. It is written and removed in one patch with the
	// cordon: a node without it was not cordoned by the operator.
	AnnotationCordonedBy = "topsops.enflame.com/cordoned-by"

	// TaintDriverUpgrade keeps DaemonSet pods that use a GCU off a node
	// while its driver is replaced. Its value is the id of the operation, its effect
	// NoSchedule.
	TaintDriverUpgrade = "topsops.enflame.com/driver-upgrade"

	// LabelManagedBy is on every object this operator deploys, with value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy and the field manager of every
	// server-side apply.
	ManagedBy = "gcu-operator"
	// LabelGcuResource names, on every deployed object that is deleted with its gr, that gr.
	LabelGcuResource = "topsops.enflame.com/gcuresource"
	// LabelComponent names, on every deployed object, the component (the spec key).
	LabelComponent = "topsops.enflame.com/component"
	// AnnotationOrder is, on a DaemonSet of a gr, its place in the order in
	// which the pods of one node are replaced: a decimal number, lower first.
	AnnotationOrder = "topsops.enflame.com/order"

	// AnnotationRevision is, on a DaemonSet of a gr, the name of the revision of
	// the gr's spec it was rendered from: a ControllerRevision in the operator's
	// namespace.
	AnnotationRevision = "topsops.enflame.com/revision"

	// AnnotationRejectedRevision is, on a DaemonSet of a gr, the name of the revision of the gr's
	// spec that was rejected: the DaemonSet was rendered from an earlier one in its place.
	AnnotationRejectedRevision = "topsops.enflame.com/rejected-revision"

	// GateRemoved is the scheduling gate of the pods of a DaemonSet that leaves its nodes one by one:
	// such a pod is a placeholder and never starts.
	GateRemoved = "topsops.enflame.com/removed"
	// GateAwaitingUpgrade is the scheduling gate that the admission policy gcu-operator-gate adds to a new pod
	// of a controlled DaemonSet if its node was not granted the pod's revision. The operator removes the gate, or
	// creates a pod of the revision that the node has.
	GateAwaitingUpgrade = "topsops.enflame.com/awaiting-upgrade"
	// AnnotationSuccessorOf lists, on a DaemonSet of a gr, the DaemonSets (NAMESPACE/NAME,…) that it was created
	// to succeed while they leave: its pods do not run beside theirs. After a semicolon follows the hash of the
	// template that it would have otherwise.
	AnnotationSuccessorOf = "topsops.enflame.com/successor-of"
	// AnnotationCreatedFrom is, on a Job of a gr, the hash of what it was created from: its template is
	// immutable.
	AnnotationCreatedFrom = "topsops.enflame.com/created-from"

	// LabelGlobalTask is, with value "true", on the CronJobs whose templates plans may run.
	LabelGlobalTask = "topsops.enflame.com/global-task"

	// LabelRecreation is on the ConfigMaps in which versions before v1 stored what is now a
	// GcuResourceRecreation. They are ignored: anyone may have written them.
	LabelRecreation = "topsops.enflame.com/recreation"
	// AnnotationRecreation is, on a gr that was created again, the UID of its
	// GcuResourceRecreation.
	AnnotationRecreation = "topsops.enflame.com/recreation"
	// AnnotationLastAuthor on a GcuResource or a DaemonRollout is the user whose request to the REST API
	// changed it last. Users who can write the object can write the annotation, so it is no proof; the audit log
	// of the API server is.
	AnnotationLastAuthor = "topsops.enflame.com/last-author"

	// AnnotationAskedBy on a GcuResource, a DaemonRollout or a NodeUpgrade records who made the latest change
	// by hand: the time in RFC 3339, the verb and the name of the user, separated by blanks. The plugin and the
	// REST API write it in the same request as the change.
	AnnotationAskedBy = "topsops.enflame.com/asked-by"

	// LabelGcushare marks a node whose cards gcusharePlugin shares. The operator
	// sets and removes it.
	LabelGcushare = "enflame.com/gcushare"

	// GcuResourceKind is the kind of a gr.
	GcuResourceKind = "GcuResource"

	// Finalizer is the only finalizer of a gr (contract statement 6).
	Finalizer = "topsops.enflame.com/v1"
)

// PodNeedUpgrade is the pod condition that says whether a newer revision of the
// pod's DaemonSet exists (contract statement 100). Its message is
// "controllerrevision: <hash>" with the hash of the newest revision.
const PodNeedUpgrade corev1.PodConditionType = "PodNeedUpgrade"

// PodNeedUpgradeMessagePrefix comes before the revision hash in the message of PodNeedUpgrade.
const PodNeedUpgradeMessagePrefix = "controllerrevision: "

// PodImageReady is the pod condition that says whether the images of the newest
// revision are on the node of an outdated pod, after a pull was requested there. Its
// message is that of PodNeedUpgrade.
const PodImageReady corev1.PodConditionType = "PodImageReady"

// Reasons of PodImageReady, as in OpenYurt.
const (
	ReasonWaitPullImage    = "WaitPullImage"
	ReasonPullImageFail    = "PullImageFail"
	ReasonPullImageSuccess = "PullImageSuccess"
)
