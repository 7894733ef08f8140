package nodeapi

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// rememberedFor is how long fields that the API server does not know are left out of what is applied: then its CRD may have them.
const rememberedFor = 10 * time.Minute

// undeclared remembers which fields of a NodeUpgrade the API server's CRD lacks, as paths such as .status.pulls[].image. It is
// safe for concurrent use.
type undeclared struct {
	mutex sync.Mutex
	paths []string
	since time.Time
}

// at returns the paths, and forgets them when they are old.
func (u *undeclared) at(now time.Time) []string {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if age := now.Sub(u.since); age < 0 || age >= rememberedFor {
		u.paths = nil
	}
	return slices.Clone(u.paths)
}

// add remembers paths. The first one decides until when.
func (u *undeclared) add(now time.Time, paths []string) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.paths) == 0 {
		u.since = now
	}
	u.paths = slices.Compact(slices.Sorted(slices.Values(slices.Concat(u.paths, paths))))
}

// undeclaredField matches what an API server says of one field that a server-side apply has and its CRD lacks. It names
// only the first one of each object: the next refusal names the next.
var undeclaredField = regexp.MustCompile(`(?m)(?:^|\s)(\.\S.*): field not declared in schema$`)

// itemKey matches what names an item of a list in such a path: its index, its value, or its keys.
var itemKey = regexp.MustCompile(`\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\]`)

// undeclaredIn returns the paths that an error names, nil if it is another one. What one item of a list may not have, no item may.
func undeclaredIn(err error) (paths []string) {
	if err == nil {
		return nil
	}
	for _, named := range undeclaredField.FindAllStringSubmatch(err.Error(), -1) {
		paths = append(paths, itemKey.ReplaceAllString(named[1], "[]"))
	}
	return paths
}

// without removes a field from a decoded JSON value, and reports whether it was there. Keys may contain dots.
func without(value any, path string) (had bool) {
	if items, ok := value.([]any); ok {
		rest, ok := strings.CutPrefix(path, "[]")
		for i := range items {
			had = ok && without(items[i], rest) || had
		}
		return had
	}
	fields, _ := value.(map[string]any)
	for name := range fields {
		rest, ok := strings.CutPrefix(path, "."+name)
		switch {
		case !ok:
		case rest == "":
			delete(fields, name)
			return true
		case without(fields[name], rest):
			return true
		}
	}
	return false
}
