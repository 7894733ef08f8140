package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// contents has syft list of what modules each program was made, as SPDX.
func (r *release) contents(ctx context.Context) error {
	for _, name := range programs {
		for _, p := range platforms[name] {
			title := archiveName(name, r.version, p)
			text, err := call(ctx, []string{"SYFT_CHECK_FOR_APP_UPDATE=false"}, r.syft, "scan", "file:"+r.program(name, p),
				"--quiet", "--output=spdx-json", "--source-name="+title, "--source-version="+r.version)
			if err == nil {
				text, err = repeatable(text, title, r.built)
			}
			if err == nil {
				err = r.write(title+".spdx.json", text)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// repeatable gives an SPDX document in JSON a name and a time that do not change from run to run: syft draws the one, and takes the other
// from the clock.
func repeatable(text []byte, title string, at time.Time) ([]byte, error) {
	var document struct {
		CreationInfo map[string]any `json:"creationInfo"`
		Packages     []any          `json:"packages"`
	}
	all := map[string]any{}
	for _, into := range []any{&document, &all} {
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("the list of %s: %w", title, err)
		}
	}
	if len(document.Packages) < 2 || document.CreationInfo == nil {
		return nil, fmt.Errorf("the list of %s has no modules", title)
	}
	created := maps.Clone(document.CreationInfo)
	created["created"] = at.UTC().Format(time.RFC3339)
	all["creationInfo"], all["documentNamespace"] = created, "https://github.com/topsops/gcu-operator/spdx/"+title
	text, err := json.MarshalIndent(all, "", " ")
	return append(text, '\n'), err
}
