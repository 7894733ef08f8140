package versions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// steps makes steps of the driver from pairs of ranges.
func steps(ranges ...string) *topsv1.VersionPolicy {
	spec := &topsv1.VersionPolicy{}
	for i := 0; i < len(ranges); i += 2 {
		spec.Steps = append(spec.Steps, topsv1.VersionStep{Component: "driver", From: topsv1.VersionRange(ranges[i]), To: topsv1.VersionRange(ranges[i+1])})
	}
	return spec
}

func policyOf(t *testing.T, spec *topsv1.VersionPolicy) *Policy {
	t.Helper()
	p, err := Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// changing is a component that changes, staying one that does not.
func changing(name, has, gets string) Component {
	return Component{Name: name, Has: has, Gets: gets, Changes: true}
}

func staying(name, has string) Component { return Component{Name: name, Has: has, Gets: has} }

// said returns refusals as text.
func said(list []Refusal) (lines []string) {
	for _, r := range list {
		lines = append(lines, r.String())
	}
	return lines
}

func TestWhichVersionMayFollowWhich(t *testing.T) {
	oneMinor := steps("1.4.x", "1.5.x", "1.5.x", "1.6.x", "1.5.x", "1.5.x", "1.6.x", "1.7.0")
	for _, test := range []struct {
		name     string
		spec     *topsv1.VersionPolicy
		has, get string
		want     string
	}{
		{"no policy allows all", nil, "1.0.0", "9.0.0", ""},
		{"contract 97: a step from N-1 is allowed", oneMinor, "1.5.2", "1.6.0", ""},
		{"with a leading v too", oneMinor, "v1.5.2", "v1.6.0", ""},
		{"contract 97: a step from N-2 is refused, and the path named", oneMinor, "1.4.2", "1.6.1",
			"driver 1.4.2 > 1.6.1: no step allows it (versions.steps); the allowed path is 1.4.2 > a version in 1.5.x such as 1.5.0 > 1.6.1"},
		{"a longer path names each step, a range of one version alone", oneMinor, "1.7.0", "1.4.0",
			"driver 1.7.0 > 1.4.0: no step allows it (versions.steps); the allowed path is 1.7.0 > a version in 1.6.x such as 1.6.0 > a version in 1.5.x such as 1.5.0 > 1.4.0"},
		{"a single version in the middle is named without an example", steps("1.4.x", "1.5.3", "1.5.3", "1.6.x"), "1.4.2", "1.6.1",
			"driver 1.4.2 > 1.6.1: no step allows it (versions.steps); the allowed path is 1.4.2 > 1.5.3 > 1.6.1"},
		{"a step back is allowed, or nothing could be rolled back", oneMinor, "1.6.0", "1.5.2", ""},
		{"but not a step back to a newer version, which a wide range would allow", steps(">=1.4.0", "1.5.x"), "1.5.0", "2.0.0",
			"driver 1.5.0 > 2.0.0: no step allows it, and no steps lead there (versions.steps)"},
		{"the same version is no jump", oneMinor, "1.9.0", "v1.9.0", ""},
		{"up and back is no path within a range", steps("1.4.x", "1.5.x"), "1.4.1", "1.4.2",
			"driver 1.4.1 > 1.4.2: no step allows it, and no steps lead there (versions.steps)"},
		{"where no steps lead", oneMinor, "1.4.2", "2.0.0",
			"driver 1.4.2 > 2.0.0: no step allows it, and no steps lead there (versions.steps)"},
		{"ranges without limits", steps(">=1.4.0", ">=1.5.0 <2.0.0", ">1.9.0 <2.0.0", "2.0.x"), "1.4.2", "2.0.1",
			"driver 1.4.2 > 2.0.1: no step allows it (versions.steps); the allowed path is 1.4.2 > a version in >=1.5.0 <2.0.0 such as 1.9.1 > 2.0.1"},
		{"either of two ranges", steps("<1.4.0 || 1.5.x", "1.6.0"), "1.5.3", "1.6.0", ""},
		{"the new version cannot be compared", oneMinor, "1.5.0", "latest",
			"driver 1.5.0 > latest: version latest of driver cannot be compared: give it a version such as 1.6.2 (versions.steps)"},
		{"the old version cannot be compared", oneMinor, "latest", "1.6.0",
			"driver latest > 1.6.0: version latest of driver cannot be compared: give it a version such as 1.6.2 (versions.steps)"},
		{"the same tag is no proof of the same version", oneMinor, "latest", "latest",
			"driver latest > latest: version latest of driver cannot be compared: give it a version such as 1.6.2 (versions.steps)"},
		{"four numbers are no semantic version", oneMinor, "1.5.0", "1.6.0.1",
			"driver 1.5.0 > 1.6.0.1: version 1.6.0.1 of driver cannot be compared: give it a version such as 1.6.2 (versions.steps)"},
		{"what is new on the node follows nothing", oneMinor, "", "9.0.0", ""},
		{"what goes from the node is followed by nothing", oneMinor, "1.4.0", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := policyOf(t, test.spec).Refuse(&Node{Components: []Component{changing("driver", test.has, test.get)}})
			if diff := cmp.Diff(test.want, strings.Join(said(got), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	p := policyOf(t, oneMinor)
	if got := p.Refuse(&Node{Components: []Component{changing("toolkit", "1.0.0", "9.0.0")}}); got != nil {
		t.Errorf("a component without a step is refused: %v", got)
	}
	if got := p.Refuse(&Node{Components: []Component{staying("driver", "latest")}}); got != nil {
		t.Errorf("a component that does not change is refused: %v", got)
	}
}

func TestAPathIsTheShortest(t *testing.T) {
	spec := steps("1.0.0", "1.1.0", "1.1.0", "1.2.0", "1.2.0", "1.3.0", "1.0.0", "1.2.0")
	got := policyOf(t, spec).Refuse(&Node{Components: []Component{changing("driver", "1.0.0", "1.3.0")}})
	if len(got) != 1 {
		t.Fatalf("refusals %v", got)
	}
	if diff := cmp.Diff([]string{"1.0.0", "1.2.0", "1.3.0"}, got[0].Path); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPathIsRememberedForEachChange(t *testing.T) {
	p := policyOf(t, steps("1.0.0", "1.1.0", "1.1.0", "1.2.0", "1.2.0", "1.3.0"))
	for range 2 {
		for _, to := range []string{"1.2.0", "1.3.0"} {
			got := p.Refuse(&Node{Components: []Component{changing("driver", "1.0.0", to)}})
			if len(got) != 1 || got[0].Path[len(got[0].Path)-1] != to {
				t.Errorf("to %s: %v", to, got)
			}
		}
	}
}

// fits makes a policy with one rule about versions 2 of the driver.
func fits(change func(*topsv1.VersionFit)) *topsv1.VersionPolicy {
	rule := topsv1.VersionFit{Component: "driver", Version: ">=2.0.0"}
	change(&rule)
	return &topsv1.VersionPolicy{Fit: []topsv1.VersionFit{rule}}
}

func TestWhichVersionsFitTogether(t *testing.T) {
	toolkit := fits(func(f *topsv1.VersionFit) {
		f.Components = []topsv1.ComponentVersion{{Component: "toolkit", Version: ">=2.0.0"}}
	})
	kernel := fits(func(f *topsv1.VersionFit) { f.Kernel = ">=5.15.0" })
	labeled := fits(func(f *topsv1.VersionFit) {
		f.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"card": "s60"}}
	})
	always := fits(func(f *topsv1.VersionFit) { f.Version, f.Kernel = "", ">=5.15.0" })
	for _, test := range []struct {
		name string
		spec *topsv1.VersionPolicy
		node Node
		want string
	}{
		{"contract 97: driver and toolkit fit", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "2.0.0"), changing("toolkit", "1.0.0", "2.1.0")}}, ""},
		{"contract 97: the driver is upgraded without the toolkit", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "2.0.0"), staying("toolkit", "1.0.0")}},
			"driver 1.0.0 > 2.0.0: it requires toolkit >=2.0.0, but the node would have 1.0.0 (versions.fit[0])"},
		{"the toolkit goes back without the driver", toolkit, Node{Components: []Component{staying("driver", "2.0.0"), changing("toolkit", "2.0.0", "1.0.0")}},
			"driver 2.0.0 > 2.0.0: it requires toolkit >=2.0.0, but the node would have 1.0.0 (versions.fit[0])"},
		{"a driver that is new on the node", toolkit, Node{Components: []Component{changing("driver", "", "2.0.0"), staying("toolkit", "1.0.0")}},
			"driver no version > 2.0.0: it requires toolkit >=2.0.0, but the node would have 1.0.0 (versions.fit[0])"},
		{"the toolkit is not there", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "2.0.0")}},
			"driver 1.0.0 > 2.0.0: it requires toolkit >=2.0.0, which the gr does not deploy on the node (versions.fit[0])"},
		{"the toolkit is removed", toolkit, Node{Components: []Component{staying("driver", "2.0.0"), changing("toolkit", "2.0.0", "")}},
			"driver 2.0.0 > 2.0.0: it requires toolkit >=2.0.0, which the gr does not deploy on the node (versions.fit[0])"},
		{"the driver is removed", toolkit, Node{Components: []Component{changing("driver", "2.0.0", ""), staying("toolkit", "1.0.0")}}, ""},
		{"the toolkit cannot be compared", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "2.0.0"), staying("toolkit", "latest")}},
			"driver 1.0.0 > 2.0.0: version latest of toolkit cannot be compared: give it a version such as 1.6.2 (versions.fit[0])"},
		{"the driver cannot be compared", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "latest"), staying("toolkit", "2.0.0")}},
			"driver 1.0.0 > latest: version latest of driver cannot be compared: give it a version such as 1.6.2 (versions.fit[0])"},
		{"an image with a digest only", toolkit, Node{Components: []Component{{Name: "driver", Has: "1.0.0", Gets: "sha256:0f"}, changing("toolkit", "1.0.0", "2.0.0")}},
			"driver 1.0.0 > sha256:0f: version sha256:0f of driver cannot be compared: give it a version such as 1.6.2 (versions.fit[0])"},
		{"a version that the rule is not about", toolkit, Node{Components: []Component{changing("driver", "1.0.0", "1.1.0"), staying("toolkit", "1.0.0")}}, ""},
		{"what does not change is not checked", toolkit, Node{Components: []Component{staying("driver", "2.0.0"), staying("toolkit", "1.0.0"), changing("exporter", "1.0.0", "1.1.0")}}, ""},
		{"contract 97: a kernel that fits", kernel, Node{Kernel: "5.15.0-91-generic", Components: []Component{changing("driver", "1.0.0", "2.0.0")}}, ""},
		{"contract 97: a kernel that does not fit", kernel, Node{Kernel: "4.18.0-348.el8.x86_64", Components: []Component{changing("driver", "1.0.0", "2.0.0")}},
			"driver 1.0.0 > 2.0.0: it requires kernel >=5.15.0, and the node has 4.18.0-348.el8.x86_64 (versions.fit[0])"},
		{"a kernel that is not known", kernel, Node{Components: []Component{changing("driver", "1.0.0", "2.0.0")}},
			`driver 1.0.0 > 2.0.0: it requires kernel >=5.15.0, and kernel "" of the node cannot be compared (versions.fit[0])`},
		{"contract 97: labels that fit", labeled, Node{Labels: map[string]string{"card": "s60"}, Components: []Component{changing("driver", "1.0.0", "2.0.0")}}, ""},
		{"contract 97: labels that do not fit", labeled, Node{Labels: map[string]string{"card": "i20"}, Components: []Component{changing("driver", "1.0.0", "2.0.0")}},
			"driver 1.0.0 > 2.0.0: it requires node labels card=s60 (versions.fit[0])"},
		{"a rule about all versions needs none", always, Node{Kernel: "6.1.0", Components: []Component{changing("driver", "latest", "latest")}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, strings.Join(said(policyOf(t, test.spec).Refuse(&test.node)), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsNamed(t *testing.T) {
	for _, test := range []struct {
		name string
		spec *topsv1.VersionPolicy
		want string
	}{
		{"from", steps("1.4", "1.5.x"), `versions.steps[0].from: "1.4" is not a range`},
		{"to", steps("1.4.x", "1.5.x", "1.5.x", "~1.6"), `versions.steps[1].to: "~1.6" is not a range`},
		{"version", fits(func(f *topsv1.VersionFit) { f.Version = "new" }), `versions.fit[0].version: "new" is not a range`},
		{"kernel", fits(func(f *topsv1.VersionFit) { f.Kernel = ">=5" }), `versions.fit[0].kernel: ">=5" is not a range`},
		{"component", fits(func(f *topsv1.VersionFit) {
			f.Components = []topsv1.ComponentVersion{{Component: "toolkit", Version: "a"}}
		}),
			`versions.fit[0].components[0].version: "a" is not a range`},
		{"nodeSelector", fits(func(f *topsv1.VersionFit) {
			f.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
		}),
			`versions.fit[0].nodeSelector: "Is" is not a valid label selector operator`},
	} {
		if _, err := Of(test.spec); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", test.name, err, test.want)
		}
	}
}

// The parser reads each of these, and gives it another meaning than it has, for most that no version is in it: a rule about
// such versions would never apply.
func TestARangeThatMeansSomethingElseIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"1.4.x | 1.5.x":             `"|" has no meaning: write "||" for or`,
		">=1.4.0 | <1.6.0":          `"|" has no meaning: write "||" for or`,
		"1.4.0 - 1.6.0":             `"-" has no meaning`,
		">=1.4.0 , <1.6.0":          `"," has no meaning`,
		">=1.4.0 & <1.6.0":          `"&" has no meaning`,
		"! 1.4.0":                   `"!" has no meaning`,
		">=1.4.0 5":                 `"5" has no meaning`,
		"!=1.4.x":                   `write "<1.4.0 || >=1.5.0" for !=1.4.x`,
		">=1.2.0 !1.4.x":            `write "<1.4.0 || >=1.5.0" for !1.4.x`,
		"!= 1.4.x":                  `write "<1.4.0 || >=1.5.0" for !=1.4.x`,
		"!1.x":                      `write "<1.0.0 || >=2.0.0" for !1.x`,
		"~1.4.x":                    `"~1.4.x" is no version`,
		"^1.x":                      `"^1.x" is no version`,
		"=>1.4.x":                   `"=>1.4.x" is no version`,
		"|1.4.x":                    `"|1.4.x" is no version`,
		"1.x.x":                     `"1.x.x" is no version`,
		"1.4.x 1.5.x":               `no version is in "1.4.x 1.5.x": write "||" for or`,
		"1.4.0 1.5.0":               `no version is in "1.4.0 1.5.0"`,
		">=2.0.0 <1.0.0":            `no version is in ">=2.0.0 <1.0.0"`,
		"1.7.x || <1.0.0 >=2.0.0":   `no version is in "<1.0.0 >=2.0.0"`,
		">=1.5.0 <1.7.0 || 2.0.x":   "",
		">= 1.5.0 < 1.7.0":          "",
		">1.4.x":                    "",
		">1.x":                      "",
		"<=1.4.x":                   "",
		"<1.4.x":                    "",
		"=1.4.x":                    "",
		"==1.4.0":                   "",
		"!=1.4.0":                   "",
		">=1.0.0 !1.4.0 != 1.5.0":   "",
		">=1.x.x <2.x.x":            "",
		"<=1.x.x":                   `"<=1.x.x" is no version`,
		">1.4.0 <1.4.1":             "",
		">1.4.0-rc.1 <1.4.0-rc.3":   "",
		"1.5.0+build.1":             "",
		"<0.0.1":                    "",
		"1.4.x || 1.5.x || >=2.0.0": "",
	} {
		_, err := Of(steps("1.0.0", text))
		if says == "" && err != nil || says != "" && (err == nil || !strings.HasPrefix(err.Error(), "versions.steps[0].to: ") || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestTheNumbersOfAKernel(t *testing.T) {
	for kernel, want := range map[string]string{
		"5.15.0-91-generic": "5.15.0", "4.18.0-348.el8.x86_64": "4.18.0", "6.1.0-18-amd64": "6.1.0", "5.4.0+": "5.4.0",
		"4.19.90.2102-24": "4.19.90", "6.8": "6.8.0", "": "none", "unknown": "none",
	} {
		got := "none"
		if v, ok := parseKernel(kernel); ok {
			got = fmt.Sprint(v)
		}
		if got != want {
			t.Errorf("kernel %s is %s, want %s", kernel, got, want)
		}
	}
}
