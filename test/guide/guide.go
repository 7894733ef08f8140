// Package guide contains the REST API commands of the gcu-upgrade-manager guide and
// their printed output, for tests that run them unchanged.
package guide

import (
	"regexp"
	"strings"
)

// Line is a command of the gcu-upgrade-manager guide and its printed output. Six dots
// stand for omitted lines.
type Line struct{ Command, Printed string }

// The REST API commands of the guide, in its order.
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
	// The guide's template has "creationTimestamp": null, which Kubernetes no longer
	// prints.
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
	// Recreate is not in the guide: the behavior of the guide's PUT must now be requested
	// (contract section 2.10).
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
	// The guide does not print the output; contract decision D25 defines it.
	Foreground = Line{`curl http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource -X DELETE -d '{"policy": "foreground"}'`, Delete.Printed}
)

// changing matches values that differ between clusters.
var changing = regexp.MustCompile(`^( *"(?:creationTimestamp|generation|resourceVersion|uid|deprecated\.daemonset\.template\.generation)": )"?[0-9a-zA-Z:-]+"?$`)

func shapeOf(line string) string {
	return changing.ReplaceAllString(strings.TrimSuffix(line, ","), "$1…")
}

// Missing returns the first printed line that an output lacks, "" if it has all of
// them, with the same indentation and order. The output may have additional lines only
// where the guide omits some.
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
