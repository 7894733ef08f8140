package gcuresource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// specMaker makes up what users write into a gr.
type specMaker struct{ *rand.Rand }

// one reports true once in n.
func (m specMaker) one(n int) bool { return m.IntN(n) == 0 }

// of returns one of some values.
func of[T any](m specMaker, values ...T) T { return values[m.IntN(len(values))] }

// moreNamespace is a namespace for components besides the built-in ones.
const moreNamespace = "more"

// desiredSpec is the spec and the upgrade settings that a gr has at a time.
type desiredSpec struct {
	Spec     topsv1.GcuResourceSpec
	Settings map[string]string
}

func (w desiredSpec) String() string {
	spec, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return string(spec)
}

// fields makes the fields of a component. Names and namespaces are few, so that components swap
// them and come back to them.
func (m specMaker) fields() topsv1.BaseFields {
	f := topsv1.BaseFields{NotDeploy: m.one(8)}
	if m.one(2) {
		f.Version = of(m, "v1", "v2", "v3")
	}
	if m.one(8) {
		f.Image = of(m, "other", "another")
	}
	if m.one(8) {
		f.Repository = of(m, "registry:5000", "registry/a")
	}
	if m.one(8) {
		f.ImagePullPolicy = of(m, corev1.PullAlways, corev1.PullNever)
	}
	if m.one(4) {
		f.Name = fmt.Sprint("n-", m.IntN(12))
	}
	if m.one(6) {
		f.Namespace = of(m, moreNamespace, "kube-system")
	}
	if m.one(3) {
		f.Env = m.env()
	}
	if m.one(5) {
		f.NodeSelector = m.selector()
	}
	return f
}

// env makes variables in any order, some of them built in.
func (m specMaker) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	names := []string{"A", "B", "C", "NODE_NAME", "TZ", "MEMORY_UNIT"}
	for _, i := range m.Perm(len(names)) {
		if m.one(3) {
			env = append(env, corev1.EnvVar{Name: names[i], Value: of(m, "", "1", "$(A)")})
		}
	}
	return env
}

// selector makes a node selector that selects a node.
func (m specMaker) selector() map[string]string {
	return of(m, map[string]string{"pool": "a"}, map[string]string{"foreign": "label"}, map[string]string{"pool": "b", "foreign": "label"})
}

// part makes the fields of a component or a part of one, or leaves it out.
func (m specMaker) part() *topsv1.BaseFields {
	if m.one(2) {
		return nil
	}
	fields := m.fields()
	return &fields
}

// change changes a spec: about a quarter of the components.
func (m specMaker) change(before topsv1.GcuResourceSpec) topsv1.GcuResourceSpec {
	spec := *before.DeepCopy()
	for _, part := range []**topsv1.BaseFields{&spec.Driver, &spec.Toolkit, &spec.DevicePlugin, &spec.Plugin, &spec.Exporter, &spec.GFD, &spec.GcushareScheduler} {
		if m.one(4) {
			*part = m.part()
		}
	}
	if m.one(4) {
		spec.NFD = of(m, nil, &topsv1.NFDSpec{NotDeploy: m.one(8), Name: of(m, "", "n-0", "nfd"), Namespace: of(m, "", "", moreNamespace),
			NodeSelector: of(m, nil, m.selector()), Master: m.part(), Worker: m.part()})
	}
	if m.one(4) {
		spec.GcusharePlugin = of(m, nil, &topsv1.GcusharePluginSpec{BaseFields: m.fields(), MemoryUnit: of(m, "1", "1", "0.1"),
			GcushareNodes: of(m, nil, []string{"node-1"}, []string{"node-2", "node-1"}, []string{"node-9"})})
	}
	if m.one(4) {
		spec.Volcano = of(m, nil, &topsv1.VolcanoSpec{NotDeploy: m.one(8), Namespace: of(m, "", "", moreNamespace, "kube-system"),
			Controller: m.part(), Admission: m.part(), Scheduler: m.part()})
	}
	if m.one(4) {
		spec.Nightingale = of(m, nil, m.nightingale())
	}
	return spec
}

func (m specMaker) nightingale() *topsv1.NightingaleSpec {
	n := &topsv1.NightingaleSpec{NotDeploy: m.one(8), Namespace: of(m, "", "", moreNamespace, "kube-system"),
		Agentd: m.part(), MySQL: m.part(), NServer: m.part(), NWebAPI: m.part(), Prometheus: m.part(), Redis: m.part()}
	if m.one(3) {
		n.MySQLPV = &topsv1.HostPathVolume{Name: of(m, "mysql-pv", "files"), HostPath: of(m, "/data/a", "/data/b")}
	}
	if m.one(3) {
		n.MySQLPVC = &topsv1.VolumeClaim{Name: of(m, "mysql-pvc", "claim")}
	}
	return n
}

// settings makes upgrade settings.
func (m specMaker) settings() map[string]string {
	settings := map[string]string{}
	if m.one(2) {
		settings[topsv1.AnnotationUpdateStrategy] = of(m, "AdvancedRollingUpdate", "OTA")
	}
	if m.one(3) {
		settings[topsv1.AnnotationMaxUnavailable] = of(m, "1", "20%")
	}
	return settings
}

// nextSpec returns the spec to write after another one: valid as an update of it if the gr stays.
func (m specMaker) nextSpec(before desiredSpec, anew bool) desiredSpec {
	for {
		next := desiredSpec{m.change(before.Spec), before.Settings}
		if m.one(5) {
			return desiredSpec{before.Spec, m.settings()}
		}
		if m.one(3) {
			next.Settings = m.settings()
		}
		if refused(&next.Spec) == "" && (anew || refusedUpdate(&before.Spec, &next.Spec) == "") {
			return next
		}
	}
}

// refused returns why the API server rejects a spec that was made, "" if it does not; the same
// rules as in the CRD.
func refused(spec *topsv1.GcuResourceSpec) string {
	deployed := func(f *topsv1.BaseFields) bool { return f != nil && !f.NotDeploy }
	shared := deployed(spec.GcushareScheduler) || spec.GcusharePlugin != nil && !spec.GcusharePlugin.NotDeploy
	switch {
	case spec.Plugin != nil && spec.DevicePlugin != nil:
		return "set only devicePlugin"
	case shared && (deployed(spec.Plugin) || deployed(spec.DevicePlugin)):
		return "cannot be deployed together"
	}
	return ""
}

// refusedUpdate returns why the API server rejects a change of a spec, "" if it does not.
func refusedUpdate(from, to *topsv1.GcuResourceSpec) string {
	a, b := from.GcusharePlugin, to.GcusharePlugin
	if a != nil && b != nil && !a.NotDeploy && !b.NotDeploy && a.MemoryUnit != b.MemoryUnit {
		return "memoryUnit cannot be changed"
	}
	was, now := from.Nightingale, to.Nightingale
	switch {
	case was == nil || now == nil || was.NotDeploy || now.NotDeploy:
	case cmp.Or(was.Namespace, "enflame") != cmp.Or(now.Namespace, "enflame"):
		return "namespace cannot be changed"
	case !slices.Equal(databaseOf(was), databaseOf(now)):
		return "mysql-pv.name and mysql-pvc.name cannot be changed"
	}
	return ""
}

// databaseOf returns the names of the volume and of the claim of a database.
func databaseOf(n *topsv1.NightingaleSpec) []string {
	names := []string{"mysql-pv", "mysql-pvc"}
	if n.MySQLPV != nil {
		names[0] = n.MySQLPV.Name
	}
	if n.MySQLPVC != nil {
		names[1] = n.MySQLPVC.Name
	}
	return names
}
