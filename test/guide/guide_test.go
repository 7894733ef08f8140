package guide

import (
	"strings"
	"testing"
)

func TestOutputsUnlikeTheGuide(t *testing.T) {
	const one = "{\n    \"operation\": \"Upgrade\",\n    \"result\": \"Success\"\n}\n"
	for name, tt := range map[string]struct {
		line         Line
		output, want string
	}{
		"the same":                {Put, one, ""},
		"another operation":       {Put, strings.Replace(one, "Upgrade", "Update", 1), `    "operation": "Upgrade",`},
		"two spaces":              {Put, strings.ReplaceAll(one, "    ", "  "), `    "operation": "Upgrade",`},
		"more than is printed":    {Put, strings.Replace(one, "\n}", ",\n    \"content\": {}\n}", 1), "an output of as many lines"},
		"another time":            {Get, strings.Replace(Get.Printed, "2022-10-19", "2026-01-02", 1), ""},
		"a label in between":      {Get, strings.Replace(Get.Printed, "            \"generation\"", "            \"labels\": {},\n            \"generation\"", 1), ""},
		"no finalizer":            {Get, strings.Replace(Get.Printed, "\"topsops.enflame.com/v1\"\n", "\n", 1), `                "topsops.enflame.com/v1"`},
		"an image of another hub": {Driver, strings.Replace(Driver.Printed, "galaxy", "other", 1), `                            "image": "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-driver:latest",`},
	} {
		if got := tt.line.Missing(tt.output); got != tt.want {
			t.Errorf("%s: missing is %q, want %q", name, got, tt.want)
		}
	}
}
