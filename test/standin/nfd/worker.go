package nfd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// directory is the folder of the feature files.
const directory = "/etc/kubernetes/node-feature-discovery/features.d"

// Worker sends the features in features.d to the master in its pod until ctx is done.
func Worker(ctx context.Context, interval time.Duration, args []string) error {
	flags := flag.NewFlagSet("nfd-worker", flag.ContinueOnError)
	server := flags.String("server", "localhost:8080", "address of the master")
	_ = flags.String("options", "", "configuration of the sources (ignored)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := send(ctx, *server); err != nil && ctx.Err() == nil {
			log.Print(err) // retried
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func send(ctx context.Context, server string) (err error) {
	labels, err := features(os.DirFS(directory))
	if err != nil {
		return fmt.Errorf("reading features: %w", err)
	}
	body, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes)) // as far as it can be read
		return fmt.Errorf("the master returned %s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return nil
}

// features returns the labels in all files of features.d: one line per label, name or
// name=value, in nfd's namespace unless it has one. Hidden files are skipped.
func features(directory fs.FS) (map[string]string, error) {
	labels := map[string]string{}
	files, err := fs.ReadDir(directory, ".")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file.IsDir() || strings.HasPrefix(file.Name(), ".") {
			continue
		}
		data, err := fs.ReadFile(directory, file.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			name, value, hasValue := strings.Cut(strings.TrimSpace(line), "=")
			switch {
			case name == "":
				continue
			case !hasValue:
				value = "true"
			}
			if !strings.Contains(name, "/") {
				name = ownNamespace + "/" + name
			}
			labels[name] = value
		}
	}
	return labels, nil
}
