package main

import (
	"strings"
	"testing"
)

// TestTheProgramRunsOnWithoutItsCode checks that released code is read again when executed.
func TestTheProgramRunsOnWithoutItsCode(t *testing.T) {
	bytes, err := unmapCode()
	if err != nil || bytes == 0 {
		t.Fatalf("%d bytes were given back: %v", bytes, err)
	}
	var stdout, stderr buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "Exit codes") {
		t.Errorf("exit code %d, %s%s", code, stdout.String(), stderr.String())
	}
}
