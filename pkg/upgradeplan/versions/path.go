package versions

import (
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
)

// isStep reports whether a step leads from one version to another.
func isStep(steps []step, from, to semver.Version) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.leads(from, to) != nil })
}

// leads returns the range of the step that contains to, nil if the step does not lead there. A step may be
// taken backwards, but not to a newer version: from ">=1.4.0" to "1.5.x" does not allow 1.5.0 > 2.0.0.
func (s *step) leads(from, to semver.Version) *versionRange {
	switch {
	case s.from.contains(from) && s.to.contains(to):
		return &s.to
	case to.LT(from) && s.from.contains(to) && s.to.contains(from):
		return &s.from
	}
	return nil
}

// shortest returns the versions of the shortest path by steps, found breadth first over the versions
// that the steps name, lower versions first; nil if there is none. It leads only up, or only down: an
// upgrade of a driver does not go through an older version.
func shortest(steps []step, from, to semver.Version) []semver.Version {
	var ranges []versionRange
	for _, s := range steps {
		ranges = append(ranges, s.from, s.to)
	}
	places := append([]semver.Version{from, to}, named(ranges)...)
	came := make([]int, len(places)) // from where, -1 for not yet
	for i := range came {
		came[i] = -1
	}
	came[0] = 0
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == 1 {
			return wayBack(places, came)
		}
		for next := range places {
			if onward := places[at].Compare(places[next]) == from.Compare(to); onward && came[next] < 0 && isStep(steps, places[at], places[next]) {
				came[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// wayBack returns the path from the first place to the second, from the recorded predecessors.
func wayBack(places []semver.Version, came []int) []semver.Version {
	way := []semver.Version{places[1]}
	for at := came[1]; ; at = came[at] {
		way = append(way, places[at])
		if at == 0 {
			break
		}
	}
	slices.Reverse(way)
	return way
}

// describe returns the range of the first step that leads to a version, with the version as an example
// unless the range is that version alone.
func describe(steps []step, from, v semver.Version) string {
	for i := range steps {
		if r := steps[i].leads(from, v); r != nil && r.text != v.String() {
			return fmt.Sprintf("a version in %s such as %s", r.text, v)
		} else if r != nil {
			break
		}
	}
	return v.String()
}
