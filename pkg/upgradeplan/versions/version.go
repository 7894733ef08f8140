package versions

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// parse parses a tag as a semantic version. It accepts a leading v, and fewer than three numbers.
func parse(tag string) (semver.Version, bool) {
	v, err := semver.ParseTolerant(tag)
	return v, err == nil
}

// parseKernel parses the numbers of a kernel version: with what follows them it is not a semantic version.
func parseKernel(kernel string) (semver.Version, bool) {
	end := strings.IndexAny(kernel, "-+_")
	if end < 0 {
		end = len(kernel)
	}
	numbers := strings.SplitN(kernel[:end], ".", 4)
	return parse(strings.Join(numbers[:min(3, len(numbers))], "."))
}

// versionRange is a range with its text; the zero value contains everything.
type versionRange struct {
	text string
	in   semver.Range
}

func (r *versionRange) contains(v semver.Version) bool { return r.in == nil || r.in(v) }

// literal is a version in a range, with x for numbers.
var literal = regexp.MustCompile(`\d+\.(\d+|[xX*])(\.(\d+|[xX*]))?(-[0-9A-Za-z.-]+)?`)

// named returns the versions that ranges name, and the next ones above and below, sorted and
// without duplicates: if several ranges have a version in common, they have one of these in common.
func named(ranges []versionRange) []semver.Version {
	var list []semver.Version
	for _, r := range ranges {
		for _, v := range literals(r.text) {
			list = append(list, v, after(v), before(v))
		}
	}
	slices.SortFunc(list, semver.Version.Compare)
	return slices.CompactFunc(list, semver.Version.EQ)
}

// literals returns the versions in the text of a range, with 0 for x.
func literals(text string) (list []semver.Version) {
	for _, text := range literal.FindAllString(text, -1) {
		if v, ok := parse(strings.NewReplacer("x", "0", "X", "0", "*", "0").Replace(text)); ok {
			list = append(list, v)
		}
	}
	return list
}

// after returns the next version above v; before returns one below it.
func after(v semver.Version) semver.Version {
	if len(v.Pre) == 0 {
		v.Patch++
	}
	v.Pre, v.Build = nil, nil
	return v
}

func before(v semver.Version) semver.Version {
	was := v
	v.Pre, v.Build = nil, nil
	switch {
	case v.Patch > 0:
		v.Patch--
	case v.Minor > 0:
		v.Minor--
	case v.Major > 0:
		v.Major--
	default:
		return was
	}
	return v
}

// shown returns a version for messages.
func shown(tag string) string { return cmp.Or(tag, "no version") }
