package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Dashboard is what tests look at of a dashboard of Grafana.
type Dashboard struct {
	UID, Title string
	Panels     []Panel
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

// Dashboards returns those in a folder by file name. All series are selected in their queries.
func Dashboards(folder string) (map[string]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no dashboards in %s: %w", folder, err)
	}
	all := map[string]Dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d Dashboard
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "$rollout", ".*")), &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all, nil
}
