package harness

// What the test cluster does with a pod on a simulated node (test/cluster/README.md).
const (
	// BehaviorLabel is the label of the pod that says it.
	BehaviorLabel = "testcluster/behavior"
	// CrashingSuffix is the end of the version of an image that crash-loops.
	CrashingSuffix = "-crashes"
)

// CrashingOn returns the end of the version of an image that crash-loops on one node only.
func CrashingOn(node string) string { return CrashingSuffix + "-on-" + node }
