package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// isCommitted returns an error unless the release is made of what is committed, and of the commit that has the
// tag of its version, if any has.
func (r *release) isCommitted(ctx context.Context) error {
	changed, err := call(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(changed) > 0 && !r.dirty {
		return fmt.Errorf("a release is made of a commit, and these files are not committed:\n%scommit or stash them, or try with DIRTY=1", changed)
	}
	tagged, err := call(ctx, nil, "git", "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+r.version)
	if err != nil {
		return err
	}
	head, err := call(ctx, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	// An annotated tag has an object of its own, and then the commit.
	if commits := strings.Fields(string(tagged)); len(commits) > 0 && commits[len(commits)-1] != strings.TrimSpace(string(head)) {
		return fmt.Errorf("tag %s is of another commit: git checkout %s, or take another VERSION", r.version, r.version)
	}
	return nil
}

// commitTime returns the time of the commit that is checked out.
func commitTime(ctx context.Context) (time.Time, error) {
	out, err := call(ctx, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(string(out)))
}
