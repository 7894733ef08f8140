package gcuresource

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Names of the components: their keys in the spec (contract statement 25).
const (
	componentNFD               = "nfd"
	componentDriver            = "driver"
	componentToolkit           = "toolkit"
	componentDevicePlugin      = "devicePlugin"
	componentGcusharePlugin    = "gcusharePlugin"
	componentGcushareScheduler = "gcushareScheduler"
	componentNightingale       = "nightingale"
	componentExporter          = "exporter"
	componentGFD               = "gfd"
	componentVolcano           = "volcano"
)

// component is one entry of the catalog.
type component struct {
	// name is the component's key in the spec.
	name string
	// requested tells whether a spec asks for it (contract statements 22 to 24).
	requested func(*topsv1.GcuResourceSpec) bool
	// render returns its objects in the order in which a status lists them
	// (contract statement 49), exactly one of them a DaemonSet. It is nil for a
	// component of the API that this version does not serve.
	render func(*topsv1.GcuResourceSpec) []object
}

// catalog has every component of the API in deployment order (contract
// statement 46, components.md section 1.0). The index of an entry, counted
// from 1, is its place on AnnotationOrder.
var catalog = []component{
	{componentNFD, func(s *topsv1.GcuResourceSpec) bool { return s.NFD != nil && !s.NFD.NotDeploy }, renderNFD},
	{componentDriver, func(s *topsv1.GcuResourceSpec) bool { return asked(s.Driver) }, renderDriver},
	{componentToolkit, func(s *topsv1.GcuResourceSpec) bool { return asked(s.Toolkit) }, renderToolkit},
	{componentDevicePlugin, func(s *topsv1.GcuResourceSpec) bool { return asked(devicePlugin(s)) }, renderDevicePlugin},
	{componentGcusharePlugin, func(s *topsv1.GcuResourceSpec) bool {
		return s.GcusharePlugin != nil && asked(&s.GcusharePlugin.BaseFields)
	}, nil},
	{componentGcushareScheduler, func(s *topsv1.GcuResourceSpec) bool { return asked(s.GcushareScheduler) }, nil},
	{componentNightingale, func(s *topsv1.GcuResourceSpec) bool { return s.Nightingale != nil && !s.Nightingale.NotDeploy }, nil},
	{componentExporter, func(s *topsv1.GcuResourceSpec) bool { return asked(s.Exporter) }, renderExporter},
	{componentGFD, func(s *topsv1.GcuResourceSpec) bool { return asked(s.GFD) }, renderGFD},
	{componentVolcano, func(s *topsv1.GcuResourceSpec) bool { return s.Volcano != nil && !s.Volcano.NotDeploy }, nil},
}

func asked(fields *topsv1.BaseFields) bool { return fields != nil && !fields.NotDeploy }

// devicePlugin returns the fields of the device plugin, which has a second
// name in the spec (decision D2). The API server refuses a spec with both.
func devicePlugin(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.DevicePlugin != nil {
		return spec.DevicePlugin
	}
	return spec.Plugin
}

// place returns the deployment order of a component, counted from 1. A name
// that is not in the catalog (an object of a newer version) comes last.
func place(name string) int {
	for i := range catalog {
		if catalog[i].name == name {
			return i + 1
		}
	}
	return len(catalog) + 1
}
