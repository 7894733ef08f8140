package component

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// NightingaleSecret holds the password of the database.
const NightingaleSecret = "nightingale-mysql"

const (
	nightingaleNamespace = "enflame"
	// passwordKey is the key of the password in NightingaleSecret.
	passwordKey = "password"
	// Names of the volume of the database (contract statement 49), and where on
	// its node it is when the spec does not say.
	mysqlVolume = "mysql-pv"
	mysqlClaim  = "mysql-pvc"
	mysqlPath   = "/var/lib/topscloud/nightingale/mysql"
	mysqlSize   = "10Gi"
)

// renderNightingale renders the monitoring system (components.md section 1.7).
// Its configuration is in the images, so there are no ConfigMaps; the password
// of the database is generated and handed out as an environment variable. The
// Services keep their names, by which the parts find each other, whatever the
// Deployments are called. Namespace and notDeploy of a part have no effect, the
// first level has both (contract statement 20).
func renderNightingale(spec *topsv1.GcuResourceSpec) []object {
	n := spec.Nightingale
	ns := cmp.Or(n.Namespace, nightingaleNamespace)
	wait := mysqlReachable(nightingalePart(n.MySQL, "mysql", "mysql", nil, ns))
	server := nightingalePart(n.NServer, "nserver", "nightingale", nightingaleEnv(), ns)
	web := nightingalePart(n.NWebAPI, "nwebapi", "nightingale", nightingaleEnv(), ns)
	agentd := nightingalePart(n.Agentd, "agentd", "ibex", []corev1.EnvVar{{Name: "GIN_MODE", Value: "release"}}, ns)
	list := []object{namespace(ns), nightingaleSecret(ns)}
	list = append(list, stateless(agentd, []string{"ibex", "agentd"}, 2090, nil))
	list = append(list, renderMySQL(n, ns)...)
	list = append(list, stateless(server, []string{"n9e", "server"}, 19000, wait), serviceOf(server, "nserver", 19000))
	list = append(list, stateless(web, []string{"n9e", "webapi"}, 18000, wait), serviceOf(web, "nwebapi", 18000))
	list = append(list, renderPrometheus(n, ns)...)
	redis := nightingalePart(n.Redis, "redis", "redis", nil, ns)
	return append(list, stateless(redis, nil, 6379, nil), serviceOf(redis, "redis", 6379))
}

// nightingalePart returns the settings of one part.
func nightingalePart(fields *topsv1.BaseFields, name, image string, env []corev1.EnvVar, namespace string) settings {
	s := builtIn{name: name, image: image, env: append([]corev1.EnvVar{{Name: "TZ", Value: "Asia/Shanghai"}}, env...)}.with(fields)
	s.namespace = namespace
	return s
}

// nightingaleEnv is what server and web interface need to find the others.
func nightingaleEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "GIN_MODE", Value: "release"},
		{Name: "WAIT_HOSTS", Value: "mysql:3306, redis:6379"},
		mysqlPassword("MYSQL_ROOT_PASSWORD"),
	}
}

// mysqlPassword is an environment variable with the password of the database.
func mysqlPassword(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: NightingaleSecret}, Key: passwordKey}}}
}

// nightingaleSecret is made once with a random password and then left alone: the
// files of the database are locked with it.
func nightingaleSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metaOf(namespace, NightingaleSecret, "mysql"),
		StringData: map[string]string{passwordKey: ""},
		Type:       corev1.SecretTypeOpaque,
	}
}

// stateless is the Deployment of a part that stores nothing. Its pod starts when
// the init containers are done.
func stateless(s settings, command []string, number int32, first []corev1.Container) object {
	main := container(s)
	main.Command = command
	main.Ports = []corev1.ContainerPort{{Name: "tcp", ContainerPort: number, Protocol: corev1.ProtocolTCP}}
	main.ReadinessProbe = listens(number)
	return deployment(s, false, corev1.PodSpec{InitContainers: first, Containers: []corev1.Container{main}})
}

// serviceOf is the Service of a part, which has the part's built-in name.
func serviceOf(s settings, name string, number int32) object {
	return service(s.namespace, name, s.name, port("tcp", number, number))
}

// mysqlReachable waits for the database, with its own client: without it server
// and web interface die once before it is up.
func mysqlReachable(mysql settings) []corev1.Container {
	mysql.name, mysql.env = "wait-for-mysql", nil
	wait := container(mysql)
	wait.Command = []string{"sh", "-c", "until mysqladmin ping --host=mysql --silent; do sleep 2; done"}
	return []corev1.Container{wait}
}

// renderMySQL returns the database and its volume: a directory of one node,
// which stays when the volume goes.
func renderMySQL(n *topsv1.NightingaleSpec, namespace string) []object {
	s := nightingalePart(n.MySQL, "mysql", "mysql", []corev1.EnvVar{mysqlPassword("MYSQL_ROOT_PASSWORD")}, namespace)
	volume, path, claim := mysqlVolume, mysqlPath, mysqlClaim
	if n.MySQLPV != nil {
		volume, path = n.MySQLPV.Name, n.MySQLPV.HostPath
	}
	if n.MySQLPVC != nil {
		claim = n.MySQLPVC.Name
	}
	main := container(s)
	main.Ports = []corev1.ContainerPort{{Name: "tcp", ContainerPort: 3306, Protocol: corev1.ProtocolTCP}}
	main.ReadinessProbe = listens(3306)
	main.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/mysql"}}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{main},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}
	return []object{
		deployment(s, true, pod), persistentVolume(volume, path, s.name), volumeClaim(namespace, claim, volume, s.name),
		serviceOf(s, "mysql", 3306),
	}
}

func mysqlStorage() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(mysqlSize)}
}

// persistentVolume is a directory of a node. Retain: deleting the volume does
// not touch the files.
func persistentVolume(name, path, app string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metaOf("", name, app),
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      mysqlStorage(),
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: path, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}},
		},
	}
}

// volumeClaim claims one volume by name; no provisioner may step in.
func volumeClaim(namespace, name, volume, app string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metaOf(namespace, name, app),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To(""),
			VolumeName:       volume,
			Resources:        corev1.VolumeResourceRequirements{Requests: mysqlStorage()},
		},
	}
}

func renderPrometheus(n *topsv1.NightingaleSpec, namespace string) []object {
	s := nightingalePart(n.Prometheus, "prometheus", "prometheus", nil, namespace)
	main := container(s)
	main.Args = []string{
		"--config.file=/etc/prometheus/prometheus.yml",
		"--storage.tsdb.path=/prometheus",
		"--enable-feature=remote-write-receiver",
		"--query.lookback-delta=2m",
	}
	main.Ports = []corev1.ContainerPort{{Name: "tcp", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}}
	main.ReadinessProbe = listens(9090)
	return []object{
		deployment(s, false, corev1.PodSpec{Containers: []corev1.Container{main}}),
		serviceOf(s, "prometheus", 9090),
	}
}
