package component

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestTheCatalogIsConsistent(t *testing.T) {
	rendered := render(t, newGR(allComponents()))
	for i := range catalog {
		entry := &catalog[i]
		for _, need := range entry.Needs {
			if Place(need) >= i+1 {
				t.Errorf("%s is deployed before %s, which it needs", entry.Name, need)
			}
		}
		for _, excluded := range entry.Excludes {
			if !slices.Contains(Find(excluded).Excludes, entry.Name) {
				t.Errorf("%s excludes %s, but not the other way round", entry.Name, excluded)
			}
		}
		r := rendered[entry.Name]
		if perNode := entry.Readiness == OnEveryNode; perNode != (r.PerNode != nil) {
			t.Errorf("%s is ready %s, but its DaemonSet is %v", entry.Name, entry.Readiness, r.PerNode)
		}
		workloads := r.Workloads()
		if len(workloads) == 0 || (r.PerNode != nil && len(workloads) != 1) {
			t.Errorf("%s has workloads %v", entry.Name, workloads)
		}
		if r.Namespace != workloads[0].Namespace {
			t.Errorf("%s is in namespace %s, its workload in %s", entry.Name, r.Namespace, workloads[0].Namespace)
		}
	}
}

func TestWhatAPluginOffersHasSeveralNames(t *testing.T) {
	custom := corev1.EnvVar{Name: "CUSTOM_REGISTER_RESOURCE", Value: "a.com/x, b.com/y"}
	rendered := render(t, newGR(topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{Env: []corev1.EnvVar{custom}}}))
	plugin, gfd := rendered[DevicePlugin], rendered[GFD]
	if diff := cmp.Diff([]corev1.ResourceName{"enflame.com/gcu", "enflame.com/vgcu", "enflame-tech.com/gcu", "a.com/x", "b.com/y"}, plugin.Offers()); diff != "" {
		t.Errorf("the plugin offers (-want +got):\n%s", diff)
	}
	if got := gfd.Offers(); got != nil {
		t.Errorf("gfd offers %v", got)
	}
}

func TestANameThatIsNoComponentIsNotFound(t *testing.T) {
	if entry := Find("future"); entry != nil {
		t.Errorf("found %v", entry)
	}
	if got := Place("future"); got != len(catalog)+1 {
		t.Errorf("its place is %d", got)
	}
}

// listed returns the objects of a component that a status lists, as kind and name.
func listed(r Rendered) []string {
	var list []string
	for _, d := range r.Objects {
		if !d.Ref.Shared() {
			list = append(list, d.Ref.Kind+" "+d.Ref.Name)
		}
	}
	return list
}

func TestContractOwnedObjects(t *testing.T) {
	spec := allComponents()
	spec.NFD.Name = "enflame-node-feature-discovery"
	rendered := render(t, newGR(spec))
	for name, want := range map[string][]string{
		"nfd": {"ClusterRole nfd-clusterrole", "ClusterRoleBinding nfd-clusterrolebinding", "DaemonSet enflame-node-feature-discovery",
			"CustomResourceDefinition nodefeaturerules.nfd.k8s-sigs.io", "ServiceAccount nfd-service-account"},
		"driver":       {"DaemonSet enflame-gcu-driver"},
		"toolkit":      {"DaemonSet enflame-gcu-docker-plugin"},
		"devicePlugin": {"DaemonSet enflame-gcu-k8s-plugin"},
		"gfd":          {"DaemonSet enflame-gcu-feature-discovery"},
		"exporter":     {"DaemonSet enflame-gcu-exporter", "Service enflame-gcu-exporter"},
		"nightingale": {"Deployment agentd", "Deployment mysql", "PersistentVolume mysql-pv", "PersistentVolumeClaim mysql-pvc", "Service mysql",
			"Deployment nserver", "Service nserver", "Deployment nwebapi", "Service nwebapi",
			"Deployment prometheus", "Service prometheus", "Deployment redis", "Service redis"},
	} {
		t.Run("contract 49: "+name, func(t *testing.T) {
			if diff := cmp.Diff(want, listed(rendered[name])); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// podOf returns the pod spec of a workload, an empty one for other objects.
func podOf(t *testing.T, d Desired) corev1.PodSpec {
	t.Helper()
	if !d.Ref.Workload() {
		return corev1.PodSpec{}
	}
	var workload appsv1.Deployment // a DaemonSet and a Job have the same template
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, &workload); err != nil {
		t.Fatal(err)
	}
	return workload.Spec.Template.Spec
}

// imagesOf returns the image of each container of a component's workloads.
func imagesOf(t *testing.T, r Rendered) map[string]string {
	t.Helper()
	images := map[string]string{}
	for _, d := range r.Objects {
		for _, c := range podOf(t, d).Containers {
			images[d.Ref.Namespace+"/"+d.Ref.Name+"/"+c.Name] = c.Image
		}
	}
	return images
}

func TestContractFirstLevels(t *testing.T) {
	child := &topsv1.BaseFields{Name: "renamed", Namespace: "elsewhere", NotDeploy: true, Version: "v9"}
	t.Run("contract 20: namespace and notDeploy of nightingale win over those of a part, its name is its own", func(t *testing.T) {
		r := render(t, newGR(topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Namespace: "first", Redis: child}}))["nightingale"]
		if got := imagesOf(t, r)["first/renamed/renamed"]; got != "artifact.enflame.cn/enflame_docker_images/enflame/redis:v9" {
			t.Errorf("images are %v", imagesOf(t, r))
		}
	})
	t.Run("contract 20: the namespace of a part has no effect when the first level has none either", func(t *testing.T) {
		r := render(t, newGR(topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Redis: child}}))["nightingale"]
		if _, found := imagesOf(t, r)["enflame/renamed/renamed"]; !found {
			t.Errorf("images are %v", imagesOf(t, r))
		}
	})
	t.Run("contract 20: namespace and notDeploy of volcano win over those of a part, its name is its own", func(t *testing.T) {
		r := render(t, newGR(topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{Namespace: "first", Scheduler: child}}))["volcano"]
		if got := imagesOf(t, r)["first/renamed/renamed"]; got != "artifact.enflame.cn/enflame_docker_images/enflame/vc-scheduler:v9" {
			t.Errorf("images are %v", imagesOf(t, r))
		}
	})
	t.Run("contract 14: nightingale is in enflame, volcano in volcano-system, the rest in kube-system", func(t *testing.T) {
		got := map[string][]string{}
		for name, r := range render(t, newGR(allComponents())) {
			got[r.Namespace] = append(got[r.Namespace], name)
		}
		if diff := cmp.Diff([]string{"nightingale"}, got["enflame"]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"volcano"}, got["volcano-system"]); diff != "" || len(got["kube-system"]) != 8 {
			t.Errorf("namespaces: %v", got)
		}
	})
}

func TestContractBlueprint(t *testing.T) {
	rendered := render(t, example(t, "gcu-resource-driver.json"))
	images := map[string]string{}
	for _, r := range rendered {
		for name, image := range imagesOf(t, r) {
			images[name] = image
		}
	}
	const enflame, hub = "artifact.enflame.cn/enflame_docker_images/enflame/", "artifact.enflame.cn/galaxy_docker_hub/gcu/"
	want := map[string]string{
		"kube-system/enflame-node-feature-discovery/nfd-master":                   enflame + "node-feature-discovery:v0.11.3",
		"kube-system/enflame-node-feature-discovery/nfd-worker":                   enflame + "node-feature-discovery:v0.11.3",
		"kube-system/enflame-gcu-driver/enflame-gcu-driver":                       hub + "gcu-driver:latest",
		"kube-system/enflame-gcu-docker-plugin/enflame-gcu-docker-plugin":         hub + "gcu-runtime:latest",
		"kube-system/enflame-gcu-k8s-plugin/enflame-gcu-k8s-plugin":               hub + "gcu-plugin:latest",
		"kube-system/enflame-gcu-exporter/enflame-gcu-exporter":                   enflame + "gcu-exporter:latest",
		"kube-system/enflame-gcu-feature-discovery/enflame-gcu-feature-discovery": hub + "gcu-gfd:latest",
	}
	t.Run("contract 17 and 33: names and images of the blueprint", func(t *testing.T) {
		if diff := cmp.Diff(want, images); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
	})
	t.Run("contract 33: the driver does not reboot", func(t *testing.T) {
		env := rendered["driver"].PerNode.Spec.Template.Spec.Containers[0].Env
		if !slices.Contains(env, corev1.EnvVar{Name: "WITH_REBOOT", Value: "false"}) {
			t.Errorf("env is %v", env)
		}
	})
	t.Run("contract 33: what is switched off is that of the guide", func(t *testing.T) {
		spec := example(t, "gcu-resource.json").Spec
		share, scheduler := spec.GcusharePlugin, spec.GcushareScheduler
		if share.Version != "default" || scheduler.Version != "default" || share.Repository != "" || scheduler.Repository != "" ||
			share.MemoryUnit != "1" || spec.Nightingale.Namespace != "enflame" || !spec.Volcano.NotDeploy {
			t.Errorf("got %+v, %+v", share, scheduler)
		}
	})
}

func TestContractExporter(t *testing.T) {
	t.Run("contract 59: metrics are at /metrics on port 30940 of every node", func(t *testing.T) {
		r := render(t, newGR(allComponents()))["exporter"]
		var service corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Objects[1].Object.Object, &service); err != nil {
			t.Fatal(err)
		}
		port := service.Spec.Ports[0]
		container := r.PerNode.Spec.Template.Spec.Containers[0]
		if service.Spec.Type != corev1.ServiceTypeNodePort || port.NodePort != 30940 || port.TargetPort.IntVal != container.Ports[0].ContainerPort {
			t.Errorf("the Service is %+v", service.Spec)
		}
		if diff := cmp.Diff(r.PerNode.Spec.Template.Labels, service.Spec.Selector); diff != "" || service.Annotations["prometheus.io/path"] != "/metrics" {
			t.Errorf("it leads to %v, %v", service.Spec.Selector, service.Annotations)
		}
	})
}

func TestGcushareFollowsItsFields(t *testing.T) {
	spec := topsv1.GcuResourceSpec{
		GcusharePlugin:    &topsv1.GcusharePluginSpec{MemoryUnit: "0.01", BaseFields: topsv1.BaseFields{NodeSelector: map[string]string{"pool": "a"}}},
		GcushareScheduler: &topsv1.BaseFields{},
	}
	rendered := render(t, newGR(spec))
	plugin := rendered["gcusharePlugin"].PerNode.Spec.Template.Spec
	t.Run("contract 27: memoryUnit reaches the plugin", func(t *testing.T) {
		if !slices.Contains(plugin.Containers[0].Env, corev1.EnvVar{Name: "MEMORY_UNIT", Value: "0.01"}) {
			t.Errorf("env is %v", plugin.Containers[0].Env)
		}
	})
	t.Run("contract 28: it runs on the nodes that are selected and shared", func(t *testing.T) {
		want := map[string]string{"pool": "a", topsv1.LabelGcushare: "true"}
		if diff := cmp.Diff(want, plugin.NodeSelector); diff != "" || len(spec.GcusharePlugin.NodeSelector) != 1 {
			t.Errorf("node selector (-want +got):\n%s", diff)
		}
	})
	t.Run("both log to the public path on the host, D19", func(t *testing.T) {
		const path = "/var/log/enflame/gcushare"
		pods := []corev1.PodSpec{plugin}
		for _, d := range rendered["gcushareScheduler"].Objects {
			if d.Ref.GroupVersionKind == DeploymentKind {
				pods = append(pods, podOf(t, d))
			}
		}
		if len(pods) != 2 {
			t.Fatalf("there are %d pods", len(pods))
		}
		for _, pod := range pods {
			volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == path })
			if volume < 0 || !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == pod.Volumes[volume].Name && m.MountPath == path && !m.ReadOnly
			}) {
				t.Errorf("%s has volumes %v, mounted at %v", pod.Containers[0].Name, pod.Volumes, pod.Containers[0].VolumeMounts)
			}
		}
	})
	t.Run("the scheduler is on the control plane unless a node selector says where", func(t *testing.T) {
		affinity := func(s topsv1.GcuResourceSpec) *corev1.Affinity {
			for _, d := range render(t, newGR(s))["gcushareScheduler"].Objects {
				if d.Ref.GroupVersionKind == DeploymentKind {
					return podOf(t, d).Affinity
				}
			}
			return nil
		}
		if affinity(spec) == nil {
			t.Error("it may run anywhere")
		}
		spec.GcushareScheduler.NodeSelector = map[string]string{"pool": "a"}
		if got := affinity(spec); got != nil {
			t.Errorf("it must run on %v", got)
		}
	})
}

func TestTheVolumeOfTheDatabaseFollowsItsFields(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec topsv1.NightingaleSpec
		want [4]string // the PersistentVolume, its path, the claim, and the claim in the pod
	}{
		{"contract 30: volume and claim", topsv1.NightingaleSpec{MySQLPV: &topsv1.HostPathVolume{Name: "v", HostPath: "/data"}, MySQLPVC: &topsv1.VolumeClaim{Name: "c"}},
			[4]string{"v", "/data", "c", "c"}},
		{"contract 30: the volume only", topsv1.NightingaleSpec{MySQLPV: &topsv1.HostPathVolume{Name: "v", HostPath: "/data"}},
			[4]string{"v", "/data", "mysql-pvc", "mysql-pvc"}},
		{"contract 30: the claim only", topsv1.NightingaleSpec{MySQLPVC: &topsv1.VolumeClaim{Name: "c"}},
			[4]string{"mysql-pv", "/var/lib/topscloud/nightingale/mysql", "c", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got [4]string
			for _, d := range render(t, newGR(topsv1.GcuResourceSpec{Nightingale: &tc.spec}))["nightingale"].Objects {
				switch {
				case d.Ref.Kind == "PersistentVolume":
					got[0] = d.Ref.Name
					got[1], _, _ = unstructured.NestedString(d.Object.Object, "spec", "hostPath", "path")
				case d.Ref.Kind == "PersistentVolumeClaim":
					got[2] = d.Ref.Name
					if volume, _, _ := unstructured.NestedString(d.Object.Object, "spec", "volumeName"); volume != tc.want[0] {
						t.Errorf("it claims %s", volume)
					}
				case d.Ref.Kind == "Deployment" && d.Ref.Name == "mysql":
					got[3] = podOf(t, d).Volumes[0].PersistentVolumeClaim.ClaimName
				}
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// No manifest contains a password.
func TestThePasswordIsEmptyUntilItIsMade(t *testing.T) {
	for _, d := range render(t, newGR(allComponents()))["nightingale"].Objects {
		if d.Ref.Kind != "Secret" {
			continue
		}
		if diff := cmp.Diff(map[string]any{"password": ""}, d.Object.Object["stringData"]); diff != "" || d.Object.Object["data"] != nil {
			t.Errorf("the Secret holds something (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("there is no Secret")
}

func TestWebhooksComeLastAndSpareWhatTheyNeed(t *testing.T) {
	objects := slices.Clone(render(t, newGR(topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{Namespace: "batch"}}))["volcano"].Objects)
	slices.SortStableFunc(objects, func(a, b Desired) int { return a.Ref.Rank() - b.Ref.Rank() })
	if first := objects[0].Ref.Kind; first != "Namespace" {
		t.Errorf("%s comes first", first)
	}
	for _, d := range objects[len(objects)-7:] {
		if !d.Ref.Webhook() {
			t.Errorf("%s comes after webhooks", d.Ref)
			continue
		}
		hook := d.Object.Object["webhooks"].([]any)[0].(map[string]any)
		spared := hook["namespaceSelector"].(map[string]any)["matchExpressions"].([]any)[0].(map[string]any)
		if diff := cmp.Diff([]any{"batch", "kube-system"}, spared["values"]); diff != "" || spared["operator"] != "NotIn" {
			t.Errorf("%s spares %v", d.Ref, spared)
		}
	}
}
