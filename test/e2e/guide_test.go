package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// guideLine is a command of the gcu-upgrade-manager guide and what the guide prints
// of its output. Six dots stand for lines that are left out.
type guideLine struct{ command, printed string }

// The lines of the guide that use the REST API, as they are printed there, in its order.
var (
	guideList = guideLine{`curl http://<node-ip>:32765/gum/v1/gr`, `{
    "operation": "List",
    "result": "Success",
    "content": {
        "apiVersion": "topsops.enflame.com/v1",
        "items": [
            {
                "apiVersion": "topsops.enflame.com/v1",
                "kind": "GcuResource",
                "metadata": {
                    "creationTimestamp": "2022-10-19T08:28:29Z",
                    "finalizers": [
                        "topsops.enflame.com/v1"
                    ],
                    "generation": 1,
    ......
}
`}
	guideGet = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource`, `{
    "operation": "Get",
    "result": "Success",
    "content": {
        "apiVersion": "topsops.enflame.com/v1",
        "kind": "GcuResource",
        "metadata": {
            "creationTimestamp": "2022-10-19T08:28:29Z",
            "finalizers": [
                "topsops.enflame.com/v1"
            ],
            "generation": 1,
    ......
}
`}
	// The guide's template has "creationTimestamp": null, which Kubernetes has stopped
	// to print.
	guideDriver = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource/resource/driver`, `{
    "operation": "Get",
    "result": "Success",
    "content": {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "annotations": {
                "deprecated.daemonset.template.generation": "1"
            },
            "creationTimestamp": "2022-10-19T08:28:29Z",
            "generation": 1,
            "labels": {
                "app.kubernetes.io/name": "enflame-gcu-driver"
            },
            "name": "enflame-gcu-driver",
            "namespace": "kube-system",
            "resourceVersion": "3803229",
            "uid": "50771276-1f1c-4d24-ae1e-28b0785d9a48"
        },
        "spec": {
            "revisionHistoryLimit": 10,
            "selector": {
                "matchLabels": {
                    "app.kubernetes.io/name": "enflame-gcu-driver"
                }
            },
            "template": {
                "metadata": {
                    "labels": {
                        "app.kubernetes.io/name": "enflame-gcu-driver"
                    }
                },
                "spec": {
                    "containers": [
                        {
                            "env": [
                                {
                                    "name": "WITH_REBOOT",
                                    "value": "false"
                                }
                            ],
                            "image": "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-driver:latest",
                            "imagePullPolicy": "IfNotPresent",
                            "name": "enflame-gcu-driver",
    ......
}
`}
	guidePut = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X PUT -d '{"file": "gr.json"}'`, `{
    "operation": "Upgrade",
    "result": "Success"
}
`}
	guideDelete = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X DELETE`, `{
    "operation": "Delete",
    "result": "Success"
}
`}
	guideGone = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource`, `{
    "operation": "Get",
    "result": "Failed",
    "error": "gcuresources.topsops.enflame.com \"enflame-gcu-resource\" not found"
}
`}
	// The guide does not print the output; contract decision D25 says that it is this.
	guideForeground = guideLine{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X DELETE -d '{"policy": "foreground"}'`, guideDelete.printed}
)

// changing are the values that differ from one cluster to the next.
var changing = regexp.MustCompile(`^( *"(?:creationTimestamp|generation|resourceVersion|uid|deprecated\.daemonset\.template\.generation)": )"?[0-9a-zA-Z:-]+"?$`)

func shapeOf(line string) string {
	return changing.ReplaceAllString(strings.TrimSuffix(line, ","), "$1…")
}

// missing returns the first line of what the guide prints that an output lacks, ""
// when all are there, as deep and in that order. Where the guide leaves lines out
// the output may have more, else not.
func (g guideLine) missing(output string) string {
	want, cut := strings.Split(g.printed, "\n"), false
	if i := strings.Index(g.printed, "    ......\n"); i >= 0 {
		want, cut = strings.Split(strings.TrimSuffix(g.printed[:i], "\n"), "\n"), true
	}
	got := strings.Split(output, "\n")
	if !cut && len(got) != len(want) {
		return "an output of as many lines"
	}
	for _, line := range got {
		if len(want) > 0 && shapeOf(line) == shapeOf(want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		return want[0]
	}
	return ""
}

func TestOutputsUnlikeTheGuide(t *testing.T) {
	const one = "{\n    \"operation\": \"Upgrade\",\n    \"result\": \"Success\"\n}\n"
	for name, tt := range map[string]struct {
		line         guideLine
		output, want string
	}{
		"the same":                {guidePut, one, ""},
		"another operation":       {guidePut, strings.Replace(one, "Upgrade", "Update", 1), `    "operation": "Upgrade",`},
		"two spaces":              {guidePut, strings.ReplaceAll(one, "    ", "  "), `    "operation": "Upgrade",`},
		"more than is printed":    {guidePut, strings.Replace(one, "\n}", ",\n    \"content\": {}\n}", 1), "an output of as many lines"},
		"another time":            {guideGet, strings.Replace(guideGet.printed, "2022-10-19", "2026-01-02", 1), ""},
		"a label in between":      {guideGet, strings.Replace(guideGet.printed, "            \"generation\"", "            \"labels\": {},\n            \"generation\"", 1), ""},
		"no finalizer":            {guideGet, strings.Replace(guideGet.printed, "\"topsops.enflame.com/v1\"\n", "\n", 1), `                "topsops.enflame.com/v1"`},
		"an image of another hub": {guideDriver, strings.Replace(guideDriver.printed, "galaxy", "other", 1), `                            "image": "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-driver:latest",`},
	} {
		if got := tt.line.missing(tt.output); got != tt.want {
			t.Errorf("%s: missing is %q, want %q", name, got, tt.want)
		}
	}
}
