// Volcanocrds writes the CRDs of a release of volcano into one compressed JSON list, for the
// operator to embed. It takes them from the release's Go module, and drops the descriptions,
// which make up nine tenths of them.
//
//	go run ./volcanocrds v1.7.0 volcanocrds/volcano-crds.json.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "volcanocrds:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want two arguments: the version of volcano and the file to write")
	}
	list, err := read(args[0])
	if err != nil {
		return err
	}
	packed, err := pack(list)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], packed, 0o644)
}

// read returns the CRDs of a release, sorted by file name.
func read(version string) ([]any, error) {
	command := exec.Command("go", "mod", "download", "-json", "volcano.sh/volcano@"+version)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading volcano %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("finding volcano %s: %w", version, err)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "installer", "helm", "chart", "volcano", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("volcano %s has no CRDs where they are expected (%w)", version, err)
	}
	var list []any
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", file, err)
		}
		delete(crd, "status")
		list = append(list, withoutDescriptions(crd))
	}
	return list, nil
}

// withoutDescriptions drops the texts of a schema. A property named description is a map, and
// stays.
func withoutDescriptions(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if _, text := inner.(string); text && key == "description" {
				delete(v, key)
				continue
			}
			v[key] = withoutDescriptions(inner)
		}
	case []any:
		for i := range v {
			v[i] = withoutDescriptions(v[i])
		}
	}
	return value
}

func pack(list []any) ([]byte, error) {
	encoded, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(encoded); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
