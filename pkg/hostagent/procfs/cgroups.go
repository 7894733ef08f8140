package procfs

import (
	"path"
	"slices"
	"strings"
)

// CgroupsToJoin returns the directories of the cgroups in which a process is and this one is not, one for each
// hierarchy: own and of are /proc/PID/cgroup of this process and of the other one, mounts is its own /proc/PID/mountinfo. All are
// to be read in the cgroup and mount namespaces of the other one (cgroups(7), cgroup_namespaces(7)). A hierarchy that is
// not mounted, or not from the cgroup of the other process upwards, is left out: it cannot be joined.
func CgroupsToJoin(own, of, mounts string) (directories []string) {
	joined := hierarchies(own)
	for hierarchy, cgroup := range hierarchies(of) {
		if joined[hierarchy] == cgroup {
			continue
		}
		if directory := cgroupDirectory(mounts, hierarchy, cgroup); directory != "" {
			directories = append(directories, directory)
		}
	}
	slices.Sort(directories)
	return directories
}

// hierarchies returns the cgroup in each hierarchy by its controllers; "" is that of cgroup v2.
func hierarchies(cgroups string) map[string]string {
	of := map[string]string{}
	for line := range strings.Lines(cgroups) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 {
			of[fields[1]] = fields[2]
		}
	}
	return of
}

// cgroupDirectory returns where a cgroup of a hierarchy is mounted, "" if it is not.
func cgroupDirectory(mounts, hierarchy, cgroup string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(fs) < 3 || !isMountOf(fs[0], fs[2], hierarchy) {
			continue
		}
		root, point := mount[3], mount[4]
		if below, is := strings.CutPrefix(cgroup, strings.TrimSuffix(root, "/")); is && (below == "" || below[0] == '/') {
			return path.Join(point, below)
		}
	}
	return ""
}

// isMountOf reports whether a file system, with its type and its options, shows a hierarchy.
func isMountOf(fs, options, hierarchy string) bool {
	if hierarchy == "" {
		return fs == "cgroup2"
	}
	has := strings.Split(options, ",")
	return fs == "cgroup" && !slices.ContainsFunc(strings.Split(hierarchy, ","), func(c string) bool { return !slices.Contains(has, c) })
}
