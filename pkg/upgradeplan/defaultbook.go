package upgradeplan

// Actions of the default book. Executors of tasks select them by these names.
const (
	ActionPrecheck       = "precheck"
	ActionPrepull        = "prepull"
	ActionCordon         = "cordon"
	ActionEvict          = "evict"
	ActionReplace        = "replace"
	ActionRestartRuntime = "restart-runtime"
	ActionVerify         = "verify"
	ActionSoak           = "soak"
	ActionUncordon       = "uncordon"
	// ActionRestore returns the pod of a component to its revision before the upgrade.
	ActionRestore = "restore"
)

// Targets of the default book. Components have the names of their keys in the spec of a
// GcuResource (contract statement 25).
const (
	// TargetNode is the node itself.
	TargetNode = "node"
	// TargetRuntime is the default runtime of the node's container engine.
	TargetRuntime = "runtime"
	// TargetAllocatable is the node's allocatable resources of the accelerator.
	TargetAllocatable = "allocatable"

	TargetNFD            = "nfd"
	TargetDriver         = "driver"
	TargetToolkit        = "toolkit"
	TargetDevicePlugin   = "devicePlugin"
	TargetGcusharePlugin = "gcusharePlugin"
	TargetExporter       = "exporter"
	TargetGFD            = "gfd"
)

// DefaultBook returns a new copy of the book for the GCU components that run on nodes: the
// path of design section 4. A driver or a toolkit takes all of it, minus the tasks of
// unchanged components; a lighter change only replaces a pod.
func DefaultBook() LogicBook {
	return LogicBook{
		Actions: []Action{
			{Name: ActionPrecheck},
			{Name: ActionPrepull, OfWhatStays: true, Optional: true},
			{Name: ActionCordon, Inverse: ActionUncordon},
			{Name: ActionEvict},
			{Name: ActionReplace, Inverse: ActionRestore},
			{Name: ActionRestartRuntime, OfWhatStays: true},
			{Name: ActionVerify, OfWhatStays: true},
			{Name: ActionSoak, Optional: true},
			{Name: ActionUncordon},
			{Name: ActionRestore},
		},
		Targets: []Target{
			{Name: TargetNode, OfNode: true, Needs: []Need{
				{Actions: []string{ActionPrecheck, ActionCordon, ActionEvict, ActionSoak, ActionUncordon}, Disruption: EvictAccelerator},
				{Actions: []string{ActionRestartRuntime}, Changed: []string{TargetToolkit}},
			}},
			{Name: TargetDriver, Disruption: EvictAccelerator, Needs: []Need{
				{Actions: []string{ActionPrepull, ActionReplace, ActionVerify}},
			}},
			{Name: TargetToolkit, Disruption: RestartRuntime, Needs: []Need{
				{Actions: []string{ActionPrepull, ActionReplace}},
			}},
			{Name: TargetRuntime, OfNode: true, Needs: []Need{
				{Actions: []string{ActionVerify}, Changed: []string{TargetToolkit}},
			}},
			{Name: TargetDevicePlugin, Disruption: ReplacePod, Needs: userOfDevice()},
			{Name: TargetGcusharePlugin, Disruption: ReplacePod, Needs: userOfDevice()},
			{Name: TargetAllocatable, OfNode: true, Needs: []Need{
				{Actions: []string{ActionVerify}, Disruption: EvictAccelerator},
			}},
			{Name: TargetExporter, Disruption: ReplacePod, Needs: userOfDevice()},
			{Name: TargetGFD, Disruption: ReplacePod, Needs: userOfDevice()},
			{Name: TargetNFD, Disruption: ReplacePod, Needs: light()},
		},
		Steps: []Step{
			{Action: ActionPrecheck},
			{Action: ActionPrepull},
			{Action: ActionCordon},
			{Action: ActionEvict},
			{Action: ActionReplace, Targets: []string{TargetDriver}},
			{Action: ActionVerify, Targets: []string{TargetDriver}},
			{Action: ActionReplace, Targets: []string{TargetToolkit}},
			{Action: ActionRestartRuntime},
			{Action: ActionVerify, Targets: []string{TargetRuntime}},
			{Action: ActionReplace, Targets: []string{TargetDevicePlugin, TargetGcusharePlugin}},
			{Action: ActionVerify, Targets: []string{TargetAllocatable}},
			{Action: ActionReplace, Targets: []string{TargetExporter, TargetGFD, TargetNFD}},
			{Action: ActionSoak},
			{Action: ActionUncordon},
		},
	}
}

// light is the needs of a component that is only a pod: its image is pulled ahead if the node
// is out of service anyway, to keep that time short.
func light() []Need {
	return []Need{
		{Actions: []string{ActionReplace}},
		{Actions: []string{ActionPrepull}, Disruption: EvictAccelerator},
	}
}

// userOfDevice is light for a component that holds the device open: after a new driver its
// pod is replaced, with the same revision if it did not change.
func userOfDevice() []Need {
	return append(light(), Need{Actions: []string{ActionReplace}, Changed: []string{TargetDriver}})
}
