package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every version of Kubernetes that the test cluster can have is tested in make long.
func TestTheVersionsOfKubernetes(t *testing.T) {
	folders, err := os.ReadDir("../cluster/internal/assets/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, folder := range folders {
		there = append(there, strings.TrimPrefix(folder.Name(), "v"))
	}
	if !slices.Equal(there, kubernetes) {
		t.Errorf("there are %v, and tested are %v", there, kubernetes)
	}
}
