package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var twoCards = func() ([]card, error) { return []card{{"/dev/gcu0", 1, 3}, {"/dev/gcu1", 1, 3}}, nil }

// result are the devices and mounts of a container.
type result struct {
	Linux struct {
		Devices   []struct{ Path string }
		Resources struct {
			Memory  struct{ Limit json.Number }
			Devices []struct{ Access string }
		}
	}
	Mounts []struct{ Destination string }
}

func TestAContainerGetsTheCardsThatItAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		env     string
		want    []string
		devices string
	}{
		"nothing":                        {`"PATH=/bin"`, nil, `[]`},
		"none":                           {`"ENFLAME_VISIBLE_DEVICES=none"`, nil, `[]`},
		"the last one counts":            {`"ENFLAME_VISIBLE_DEVICES=all","ENFLAME_VISIBLE_DEVICES="`, nil, `[]`},
		"all":                            {`"ENFLAME_VISIBLE_DEVICES=all"`, []string{"/dev/gcu0", "/dev/gcu1"}, `[]`},
		"one":                            {`"ENFLAME_VISIBLE_DEVICES=1"`, []string{"/dev/gcu1"}, `[]`},
		"one by its name":                {`"ENFLAME_VISIBLE_DEVICES=GCU-0"`, []string{"/dev/gcu0"}, `[]`},
		"what it has is not given twice": {`"ENFLAME_VISIBLE_DEVICES=all"`, []string{"/dev/gcu1", "/dev/gcu0"}, `[{"path":"/dev/gcu1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"process":{"env":[` + c.env + `]},"linux":{"devices":` + c.devices + `,"resources":{"memory":{"limit":9223372036854771712}}},"mounts":[{"destination":"/sys"}]}`
			after, err := withCards([]byte(config), twoCards)
			if err != nil {
				t.Fatal(err)
			}
			var got result
			if err := json.Unmarshal(after, &got); err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, d := range got.Linux.Devices {
				paths = append(paths, d.Path)
			}
			if diff := cmp.Diff(c.want, paths); diff != "" {
				t.Error(diff)
			}
			if c.want != nil && (len(got.Mounts) != 2 || got.Mounts[1].Destination != "/sys/module" || got.Linux.Resources.Devices[0].Access != "rwm") {
				t.Errorf("mounts %v, rights %v", got.Mounts, got.Linux.Resources.Devices)
			}
			if limit := got.Linux.Resources.Memory.Limit; limit != "9223372036854771712" {
				t.Errorf("a number has become %s", limit)
			}
		})
	}
}

func TestBundleOf(t *testing.T) {
	for want, argv := range map[string][]string{
		"/b":   {"runtime", "--root", "/r", "create", "--bundle", "/b", "--pid-file", "/p", "id"},
		"/c":   {"runtime", "create", "--bundle=/c", "id"},
		"/run": {"runtime", "run", "-b", "/run", "id"},
		"":     {"runtime", "kill", "id", "9"},
	} {
		if got := bundleOf(argv); got != want {
			t.Errorf("bundle of %v is %q", argv, got)
		}
	}
}
