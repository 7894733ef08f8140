package procfs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCgroupsToJoin(t *testing.T) {
	const (
		v2     = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1     = "30 29 0:27 / /sys/fs/cgroup/systemd rw shared:5 - cgroup cgroup rw,xattr,name=systemd\n31 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n32 29 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		hybrid = v1 + "33 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		pod    = "/kubepods/besteffort/pod" + uid + "/" + id
	)
	for name, c := range map[string]struct {
		own, of, mounts string
		want            []string
	}{
		"cgroup v2":                            {"0::" + pod + "\n", "0::/init.scope\n", v2, []string{"/sys/fs/cgroup/init.scope"}},
		"the root of cgroup v2":                {"0::" + pod + "\n", "0::/\n", v2, []string{"/sys/fs/cgroup"}},
		"seen from the namespace of process 1": {"0::/../../kubelet.slice/x\n", "0::/\n", v2, []string{"/sys/fs/cgroup"}},
		"already there":                        {"0::/init.scope\n", "0::/init.scope\n", v2, nil},
		"cgroup v1": {"4:memory:" + pod + "\n2:cpu,cpuacct:" + pod + "\n1:name=systemd:/\n", "4:memory:/a b:c\n2:cpu,cpuacct:/\n1:name=systemd:/\n", v1,
			[]string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory/a b:c"}},
		"both":                            {"4:memory:" + pod + "\n0::" + pod + "\n", "4:memory:/\n0::/\n", hybrid, []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"}},
		"a hierarchy that is not mounted": {"4:pids:" + pod + "\n0::" + pod + "\n", "4:pids:/\n0::/\n", v1, nil},
		"a mount of a part":               {"0::/machine/" + pod + "\n", "0::/machine/init\n", "29 23 0:26 /machine /sys/fs/cgroup rw - cgroup2 c rw\n", []string{"/sys/fs/cgroup/init"}},
		"a mount of another part":         {"0::/machines/" + pod + "\n", "0::/machines/init\n", "29 23 0:26 /machine /sys/fs/cgroup rw - cgroup2 c rw\n", nil},
		"no cgroups":                      {"", "", v2, nil},
		"what is not from the kernel":     {"0:x\n", "0\n1:2\n", "29 23\n - cgroup2\n", nil},
	} {
		if diff := cmp.Diff(c.want, CgroupsToJoin(c.own, c.of, c.mounts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
