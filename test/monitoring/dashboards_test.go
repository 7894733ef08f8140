package monitoring

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/topsops/gcu-operator/pkg/outcome"
)

// metric matches the names of the manager's metrics in queries.
var metric = regexp.MustCompile(`\bgcu_[a-z_]+`)

// TestNamesOfMetrics: alerts and dashboards name metrics that the manager has.
func TestNamesOfMetrics(t *testing.T) {
	reference := read(t, "../../docs/reference/metrics.md")
	known := func(where, query string) {
		t.Helper()
		names := metric.FindAllString(query, -1)
		if len(names) == 0 && !strings.Contains(query, "enflame_gcu_") {
			t.Errorf("%s: %s names no metric", where, query)
		}
		for _, name := range names {
			if !strings.Contains(reference, "`"+strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")+"`") {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
	for _, expr := range regexp.MustCompile(`(?m)^        expr: (?:\|\n(?:          .*\n)+|.*\n)`).FindAllString(read(t, rulesFile), -1) {
		known("rules", expr)
	}
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				known(name+" "+p.Title, target.Expr)
			}
		}
	}
}

// TestOneLabelOfOutcomes: how something ended is label result, whose values are in pkg/outcome.
func TestOneLabelOfOutcomes(t *testing.T) {
	results := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(gcu_[a-z_]+)` \\| [a-z]+ \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(read(t, "../../docs/reference/metrics.md"), -1) {
		switch {
		case regexp.MustCompile("`(outcome|status)`").MatchString(row[2]):
			t.Errorf("%s has labels %s: it is result", row[1], row[2])
		case strings.Contains(row[2], "`result`"):
			if results++; !strings.Contains(row[3], string(outcome.Success)) || !strings.Contains(row[3], string(outcome.Failure)) {
				t.Errorf("the help of %s does not say the results: %s", row[1], row[3])
			}
		}
	}
	if results == 0 {
		t.Error("no metric has results")
	}
}

func dashboards(t *testing.T) map[string]Dashboard {
	t.Helper()
	all, err := Dashboards("../../config/monitoring/dashboards")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDashboards: each has an id of its own, its panels have titles, queries and places that do not
// overlap, and the kustomization installs it.
func TestDashboards(t *testing.T) {
	installed := read(t, "../../config/monitoring/dashboards/kustomization.yaml")
	uids := map[string]bool{}
	for name, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] || !strings.Contains(installed, "- "+name+"\n") {
			t.Errorf("%s has uid %q, which must be its own, and must be installed", name, d.UID)
		}
		uids[d.UID] = true
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if p.Title == "" || len(p.Targets) == 0 || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %d %q must have a title, a query, an id of its own and fit into 24 columns", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := taken[place]; other != "" {
						t.Fatalf("%s: %s and %s overlap", name, p.Title, other)
					}
					taken[place] = p.Title
				}
			}
		}
	}
}

// TestDashboardsKeepToTheSchemaOfGrafana: as Grafana's own types have it, with the options of each kind
// of panel and the queries of Prometheus, no field is unknown and no value out of bounds.
func TestDashboardsKeepToTheSchemaOfGrafana(t *testing.T) {
	runtime := cog.NewRuntime()
	for _, kind := range []variants.PanelcfgConfig{bargauge.VariantConfig(), stat.VariantConfig(), table.VariantConfig(), timeseries.VariantConfig()} {
		runtime.RegisterPanelcfgVariant(kind)
	}
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	for name := range dashboards(t) {
		var d dashboard.Dashboard //nolint:staticcheck // dashboardv2 is another format, which Grafana's sidecar does not load
		err := d.UnmarshalJSONStrict([]byte(read(t, "../../config/monitoring/dashboards/"+name)))
		var wrong cog.BuildErrors
		if errors.As(err, &wrong) && len(wrong) == 0 { // it returns an empty list where nothing is wrong
			err = d.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
