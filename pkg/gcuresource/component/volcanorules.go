package component

import rbacv1 "k8s.io/api/rbac/v1"

// queueGroups are the API groups of podgroups and queues, the present one and
// the one before.
const queueGroups = "scheduling.incubator.k8s.io scheduling.volcano.sh"

// volcanoAdmissionRules is what the webhook manager and the Job before it need:
// reading queues, its own configurations, and one Secret. Its certificate is its
// own, so it needs no right to sign any.
func volcanoAdmissionRules() []rbacv1.PolicyRule {
	secret := may("get patch", "core", "secrets")
	secret.ResourceNames = []string{volcanoAdmissionSecret}
	return []rbacv1.PolicyRule{
		may("get list watch", "core", "configmaps"),
		may("get list watch update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations"),
		may("create", "core", "secrets"), secret,
		may("create patch", "core", "events"),
		may("get list watch", queueGroups, "queues podgroups"),
	}
}

// volcanoControllerRules is what running jobs of users takes: pods, and what
// the plugins of jobs make beside them.
func volcanoControllerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		may("get list watch update delete", "batch.volcano.sh", "jobs"),
		may("update patch", "batch.volcano.sh", "jobs/status jobs/finalizers"),
		may("get list watch delete", "bus.volcano.sh", "commands"),
		may("get list watch create update delete", queueGroups, "podgroups queues queues/status"),
		may("create list watch update patch", "core", "events"),
		may("get list watch create update patch delete", "core", "pods"),
		may("update patch", "core", "pods/finalizers"),
		may("get list watch create", "core", "persistentvolumeclaims"),
		may("get list watch create delete", "core", "services"),
		may("get list watch create update delete", "core", "configmaps secrets"),
		may("get list watch", "scheduling.k8s.io", "priorityclasses"),
		may("get create delete", "networking.k8s.io", "networkpolicies"),
		may("get", "apps", "daemonsets replicasets statefulsets"),
		may("get", "batch", "jobs"),
		may("get list watch", "apiextensions.k8s.io", "customresourcedefinitions"),
	}
}

// volcanoSchedulerRules is what placing pods takes.
func volcanoSchedulerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		may("get list watch update", "batch.volcano.sh", "jobs"),
		may("update patch", "batch.volcano.sh", "jobs/status"),
		may("get list watch create delete", queueGroups, "queues"),
		may("update", queueGroups, "queues/status"),
		may("list watch update", queueGroups, "podgroups"),
		may("get list watch delete", "nodeinfo.volcano.sh", "numatopologies"),
		may("create list watch update patch", "core", "events"),
		may("get list watch update patch delete", "core", "pods pods/status"),
		may("create", "core", "pods/binding"),
		may("list watch update", "core", "persistentvolumeclaims persistentvolumes"),
		may("get list watch", "core", "namespaces services replicationcontrollers"),
		may("list watch", "core", "resourcequotas nodes"),
		may("get create update delete", "core", "configmaps"),
		may("list watch", "storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities"),
		may("list watch", "policy", "poddisruptionbudgets"),
		may("get list watch", "scheduling.k8s.io", "priorityclasses"),
		may("get list watch", "apps", "daemonsets replicasets statefulsets"),
		may("get list watch", "apiextensions.k8s.io", "customresourcedefinitions"),
	}
}
