package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/apiclock"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// TestARealAPIServerSaysWhatTimeItIs: a manager that is ahead of it relies on that.
func TestARealAPIServerSaysWhatTimeItIs(t *testing.T) {
	const off = 3 * time.Hour
	config := apiserver.Shared(t).As(apiserver.Admin)
	there := &apiclock.Clock{Now: func() time.Time { return time.Now().Add(off) }}
	config.Wrap(there.Around)
	reader, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.List(t.Context(), &corev1.NamespaceList{}); err != nil {
		t.Fatal(err)
	}
	if ahead := there.Ahead(there.Now()); (ahead - off).Abs() > time.Minute {
		t.Errorf("%s ahead, want %s", ahead, off)
	}
}
