package component

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Names of the components: their keys in the spec (contract statement 25).
const (
	NFD               = "nfd"
	Driver            = "driver"
	Toolkit           = "toolkit"
	DevicePlugin      = "devicePlugin"
	GcusharePlugin    = "gcusharePlugin"
	GcushareScheduler = "gcushareScheduler"
	Nightingale       = "nightingale"
	Exporter          = "exporter"
	GFD               = "gfd"
	Volcano           = "volcano"
)

// Readiness says when a component runs.
type Readiness string

const (
	// OnEveryNode means an available pod on every Ready node that the component belongs on, and
	// what it Offers there (contract section 2.10).
	OnEveryNode Readiness = "OnEveryNode"
	// EveryReplica means that all replicas of its Deployments are available at the newest
	// template, and that its Jobs are complete.
	EveryReplica Readiness = "EveryReplica"
)

// Entry is one component of the catalog.
type Entry struct {
	// Name is the component's key in the spec.
	Name string
	// Needs are the components it does not work without (components.md section 1.0), whether this
	// gr deploys them or the node already had them.
	Needs []string
	// Excludes are the components that must not be deployed in the same cluster, even by another
	// gr: both would allocate the same cards (contract statement 34).
	Excludes []string
	// Readiness says when it runs.
	Readiness Readiness
	// Offers are the extended resources of which a node has at least one while the component works
	// there (components.md section 1.0: vendors renamed them, so one is enough); nil if it offers
	// none. Further: it also offers the resources that its container lists (daemonset.FurtherResources).
	Offers  []corev1.ResourceName
	Further bool
	// fields returns its fields in a spec, for nfd, nightingale and volcano those of the first
	// level; nil if the spec does not name it.
	fields func(*topsv1.GcuResourceSpec) *topsv1.BaseFields
	// patch applies the other fields of its spec to its built-in objects, before the fields are
	// applied; nil if there are none.
	patch func(objects, *topsv1.GcuResourceSpec)
}

// catalog lists every component of the API in deployment order (contract statement 46,
// components.md section 1.0). The index of an entry, counted from 1, is its position in
// AnnotationOrder.
var catalog = []Entry{
	{Name: NFD, Readiness: OnEveryNode, fields: nfdFields, patch: patchNFD},
	{Name: Driver, Needs: []string{NFD}, Readiness: OnEveryNode,
		fields: func(s *topsv1.GcuResourceSpec) *topsv1.BaseFields { return s.Driver }},
	{Name: Toolkit, Needs: []string{Driver}, Readiness: OnEveryNode, patch: patchToolkit,
		fields: func(s *topsv1.GcuResourceSpec) *topsv1.BaseFields { return s.Toolkit }},
	{Name: DevicePlugin, Needs: []string{Driver, Toolkit}, Excludes: []string{GcusharePlugin, GcushareScheduler},
		Readiness: OnEveryNode, fields: devicePluginFields,
		Offers: []corev1.ResourceName{"enflame.com/gcu", "enflame.com/vgcu", "enflame-tech.com/gcu"}, Further: true},
	{Name: GcusharePlugin, Needs: []string{Driver, Toolkit}, Excludes: []string{DevicePlugin},
		Readiness: OnEveryNode, fields: gcusharePluginFields,
		Offers: []corev1.ResourceName{"enflame.com/shared-gcu", "enflame.com/drs-gcu", "enflame.com/gcu-memory"}},
	{Name: GcushareScheduler, Needs: []string{GcusharePlugin}, Excludes: []string{DevicePlugin},
		Readiness: EveryReplica, patch: patchGcushareScheduler,
		fields: func(s *topsv1.GcuResourceSpec) *topsv1.BaseFields { return s.GcushareScheduler }},
	{Name: Nightingale, Readiness: EveryReplica, fields: nightingaleFields, patch: patchNightingale},
	{Name: Exporter, Needs: []string{Driver}, Readiness: OnEveryNode, patch: patchExporter,
		fields: func(s *topsv1.GcuResourceSpec) *topsv1.BaseFields { return s.Exporter }},
	{Name: GFD, Needs: []string{NFD, Driver, Toolkit}, Readiness: OnEveryNode,
		fields: func(s *topsv1.GcuResourceSpec) *topsv1.BaseFields { return s.GFD }},
	{Name: Volcano, Readiness: EveryReplica, fields: volcanoFields, patch: patchVolcano},
}

// requested reports whether a spec requests the component: it names it and does
// not set notDeploy (contract statements 10 and 22 to 24).
func (e *Entry) requested(spec *topsv1.GcuResourceSpec) bool {
	fields := e.fields(spec)
	return fields != nil && !fields.NotDeploy
}

// SharesCards reports whether a spec deploys gcusharePlugin, which runs only on nodes with
// LabelGcushare.
func SharesCards(spec *topsv1.GcuResourceSpec) bool {
	return Find(GcusharePlugin).requested(spec)
}

// Find returns the entry of a component, nil for a name that is not in the catalog.
func Find(name string) *Entry {
	if place := Place(name); place <= len(catalog) {
		return &catalog[place-1]
	}
	return nil
}

// Place returns the deployment order of a component, counted from 1. A name
// that is not in the catalog (an object of a newer version) comes last.
func Place(name string) int {
	for i := range catalog {
		if catalog[i].Name == name {
			return i + 1
		}
	}
	return len(catalog) + 1
}

// PerNode returns the names of the components that run on nodes, in deployment order.
func PerNode() []string {
	var names []string
	for i := range catalog {
		if catalog[i].Readiness == OnEveryNode {
			names = append(names, catalog[i].Name)
		}
	}
	return names
}

// Requested returns the names of the components a spec requests, in deployment
// order.
func Requested(spec *topsv1.GcuResourceSpec) []string {
	var names []string
	for i := range catalog {
		if catalog[i].requested(spec) {
			names = append(names, catalog[i].Name)
		}
	}
	return names
}
