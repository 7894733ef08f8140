// Package guide has the lines of the gcu-upgrade-manager guide that use the REST API, with
// what the guide prints of their output, for tests that run them as they are printed.
package guide

import (
	"regexp"
	"strings"
)

// Line is a command of the gcu-upgrade-manager guide and what the guide prints
// of its output. Six dots stand for lines that are left out.
type Line struct{ Command, Printed string }

// The lines of the guide that use the REST API, as they are printed there, in its order.
var (
	List = Line{`curl http://<node-ip>:32765/gum/v1/gr`, `{
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
	Get = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource`, `{
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
	Driver = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource/resource/driver`, `{
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
	Put = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X PUT -d '{"file": "gr.json"}'`, `{
    "operation": "Upgrade",
    "result": "Success"
}
`}
	// Recreate is not in the guide: what its PUT does there has to be asked for (contract
	// section 2.10).
	Recreate = Line{strings.Replace(Put.Command, `}`, `, "mode": "recreate"}`, 1), Put.Printed}
	Delete   = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X DELETE`, `{
    "operation": "Delete",
    "result": "Success"
}
`}
	Gone = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource`, `{
    "operation": "Get",
    "result": "Failed",
    "error": "gcuresources.topsops.enflame.com \"enflame-gcu-resource\" not found"
}
`}
	// The guide does not print the output; contract decision D25 says that it is this.
	Foreground = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X DELETE -d '{"policy": "foreground"}'`, Delete.Printed}
)

// changing are the values that differ from one cluster to the next.
var changing = regexp.MustCompile(`^( *"(?:creationTimestamp|generation|resourceVersion|uid|deprecated\.daemonset\.template\.generation)": )"?[0-9a-zA-Z:-]+"?$`)

func shapeOf(line string) string {
	return changing.ReplaceAllString(strings.TrimSuffix(line, ","), "$1…")
}

// Missing returns the first line of what the guide prints that an output lacks, ""
// when all are there, as deep and in that order. Where the guide leaves lines out
// the output may have more, else not.
func (l Line) Missing(output string) string {
	want, cut := strings.Split(l.Printed, "\n"), false
	if i := strings.Index(l.Printed, "    ......\n"); i >= 0 {
		want, cut = strings.Split(strings.TrimSuffix(l.Printed[:i], "\n"), "\n"), true
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
