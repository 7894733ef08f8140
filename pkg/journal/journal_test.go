package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
)

type note struct {
	Name string `json:"name"`
	Step int    `json:"step,omitempty"`
}

func noteKind(keepPrevious bool) Kind[note] {
	return Kind[note]{
		ID:           func(n note) string { return n.Name },
		IDPattern:    regexp.MustCompile(`^[a-z0-9]{1,20}$`),
		KeepPrevious: keepPrevious,
	}
}

func open(t *testing.T, directory string, kind Kind[note]) (*Journal[note], Content[note]) {
	t.Helper()
	j, content, err := Open(directory, kind, testr.New(t))
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	return j, content
}

func put(t *testing.T, j *Journal[note], notes ...note) {
	t.Helper()
	for _, n := range notes {
		if err := j.Put(n); err != nil {
			t.Fatal(err)
		}
	}
}

func complete(t *testing.T, j *Journal[note]) {
	t.Helper()
	if err := j.Complete(); err != nil {
		t.Fatal(err)
	}
}

// names returns the files of values.
func names(t *testing.T, directory string) []string {
	t.Helper()
	files, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range files {
		if file.Name() != completeName {
			list = append(list, file.Name())
		}
	}
	return list
}

func TestValuesSurviveAndAreRemoved(t *testing.T) {
	for _, keep := range []bool{false, true} {
		directory := filepath.Join(t.TempDir(), "not", "there", "yet")
		j, content := open(t, directory, noteKind(keep))
		if diff := cmp.Diff(Content[note]{Incomplete: true}, content); diff != "" {
			t.Errorf("a new journal (-want +got):\n%s", diff)
		}
		put(t, j, note{"b", 1}, note{"a", 1}, note{"a", 2}, note{"c", 1})
		if _, content = open(t, directory, noteKind(keep)); !content.Incomplete {
			t.Error("a new journal is complete once it was opened")
		}
		complete(t, j)
		_, content = open(t, directory, noteKind(keep))
		if diff := cmp.Diff(Content[note]{Values: []note{{"a", 2}, {"b", 1}, {"c", 1}}}, content); diff != "" {
			t.Errorf("opened again (-want +got):\n%s", diff)
		}
		if err := j.Change([]note{{"d", 1}}, []string{"a", "b", "never"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"c.json", "d.json"}, names(t, directory)); diff != "" {
			t.Errorf("files after removing (-want +got):\n%s", diff)
		}
	}
}

// TestAValueThatReplacesThePreviousGeneration is in both files, and there is no moment in which it is the current one and an earlier
// one the previous: a tear would bring that back.
func TestAValueThatReplacesThePreviousGeneration(t *testing.T) {
	directory := t.TempDir()
	kind := noteKind(true)
	kind.ReplacesPrevious = func(n note) bool { return n.Step == 3 }
	j, _ := open(t, directory, kind)
	var seen []string
	j.sync = func(*os.File) error {
		generations := ""
		for _, name := range j.generations("a") {
			n, err := j.read("a", name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			generations += fmt.Sprint(n.Step)
		}
		seen = append(seen, generations)
		return nil
	}
	put(t, j, note{"a", 1}, note{"a", 2}, note{"a", 3}, note{"a", 4})
	want := []string{"00", "10", "10", "21", "21", "23", "33", "33", "43"} // the current one and the previous, before a file has its name and when all have
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

// TestWhatIsRecordedSurvivesAPowerFailure: the value is on the disk before its name is, and both
// before Put returns; a disk that fails is an error.
func TestWhatIsRecordedSurvivesAPowerFailure(t *testing.T) {
	directory := t.TempDir()
	j, _ := open(t, directory, noteKind(true))
	put(t, j, note{"a", 1})
	var synced []string
	var broken error
	j.sync = func(file *os.File) error {
		got, err := j.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		synced = append(synced, fmt.Sprintf("%s while a is %d", strings.TrimRight(filepath.Base(file.Name()), "0123456789"), got.Step))
		return broken
	}
	put(t, j, note{"a", 2})
	want := []string{unfinishedName + " while a is 1", strings.TrimRight(filepath.Base(directory), "0123456789") + " while a is 2"}
	if diff := cmp.Diff(want, synced); diff != "" {
		t.Errorf("synced (-want +got):\n%s", diff)
	}
	broken = errors.New("input/output error")
	if err := j.Put(note{"a", 3}); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if got, err := j.Get("a"); err != nil || got.Step != 2 {
		t.Errorf("then it is %v, %v", got, err)
	}
}

// TestARemovalThatFailsHalfwayLeavesTheNewestGeneration: what is left of a value is never the
// generation before its last change.
func TestARemovalThatFailsHalfwayLeavesTheNewestGeneration(t *testing.T) {
	directory := t.TempDir()
	j, _ := open(t, directory, noteKind(true))
	put(t, j, note{"a", 1}, note{"a", 2})
	previous := filepath.Join(directory, "a.json"+previousSuffix)
	if err := os.Remove(previous); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(previous, "stuck"), 0o700); err != nil { // it cannot be removed
		t.Fatal(err)
	}
	if err := j.Change(nil, []string{"a"}); err == nil {
		t.Fatal("no error")
	}
	if got, err := j.Get("a"); err != nil || got.Step != 2 {
		t.Errorf("it is %v, %v", got, err)
	}
}

func TestWhatCannotBeUsedIsSetAside(t *testing.T) {
	good, err := noteKind(false).Encode(note{"driver", 7})
	if err != nil {
		t.Fatal(err)
	}
	for title, content := range map[string]struct {
		file string
		data []byte
	}{
		"a torn file":               {"driver.json", good[:len(good)/2]},
		"an empty file":             {"driver.json", nil},
		"a flipped bit":             {"driver.json", bytes.Replace(good, []byte("driver"), []byte("driwer"), 1)},
		"a file under another name": {"other.json", good},
		"a huge file":               {"driver.json", append(bytes.Clone(good), bytes.Repeat([]byte(" "), MaxFileBytes)...)},
		"zeros after a power cut":   {"driver.json", make([]byte, len(good))},
		"two records":               {"driver.json", append(bytes.Clone(good), good...)},
		"an id that is a path":      {"driver.json", []byte(strings.Replace(string(good), "driver", "../etc", 1))},
	} {
		t.Run(title, func(t *testing.T) {
			directory := t.TempDir()
			j, _ := open(t, directory, noteKind(false))
			put(t, j, note{"kept", 1})
			complete(t, j)
			path := filepath.Join(directory, content.file)
			if err := os.WriteFile(path, content.data, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // an agent may be restarted before it has restored anything
				var got Content[note]
				j, got = open(t, directory, noteKind(false))
				if diff := cmp.Diff(Content[note]{Values: []note{{"kept", 1}}, Incomplete: true}, got); diff != "" {
					t.Errorf("content (-want +got):\n%s", diff)
				}
			}
			if _, err := os.Stat(path + corruptSuffix); err != nil {
				t.Errorf("the file was not set aside: %v", err)
			}
			complete(t, j)
			if _, again := open(t, directory, noteKind(false)); again.Incomplete {
				t.Error("the file set aside makes the journal incomplete for ever")
			}
		})
	}
}

func TestATornFileFallsBackToTheGenerationBefore(t *testing.T) {
	current, previous := "a.json", "a.json.previous"
	tear := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, directory string) {
			for _, name := range names {
				path := filepath.Join(directory, name)
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tests := map[string]struct {
		steps  int
		damage func(*testing.T, string)
		want   Content[note]
	}{
		"nothing is damaged":                    {steps: 3, damage: tear(), want: Content[note]{Values: []note{{"a", 3}}}},
		"the newest is torn":                    {steps: 3, damage: tear(current), want: Content[note]{Values: []note{{"a", 2}}, Incomplete: true}},
		"the one before is torn":                {steps: 3, damage: tear(previous), want: Content[note]{Values: []note{{"a", 3}}}},
		"the first is torn: nothing was before": {steps: 1, damage: tear(current), want: Content[note]{Incomplete: true}},
		"both are torn: it is known to be lost": {steps: 2, damage: tear(current, previous), want: Content[note]{Incomplete: true, Lost: []string{"a"}}},
		"the newest is missing": {steps: 2, damage: func(t *testing.T, directory string) {
			if err := os.Remove(filepath.Join(directory, current)); err != nil {
				t.Fatal(err)
			}
		}, want: Content[note]{Values: []note{{"a", 1}}}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			directory := t.TempDir()
			j, _ := open(t, directory, noteKind(true))
			for step := range test.steps {
				put(t, j, note{"a", step + 1})
			}
			complete(t, j)
			test.damage(t, directory)
			j, got := open(t, directory, noteKind(true))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			_, again := open(t, directory, noteKind(true))
			if diff := cmp.Diff(test.want.Lost, again.Lost); diff != "" {
				t.Errorf("what is lost when opened again (-want +got):\n%s", diff)
			}
			put(t, j, note{"a", 9})
			complete(t, j)
			if _, got := open(t, directory, noteKind(true)); !cmp.Equal(got, Content[note]{Values: []note{{"a", 9}}}) {
				t.Errorf("recorded again: %v", got)
			}
		})
	}
}

func TestACrashBeforeTheRenameLeavesTheValueBefore(t *testing.T) {
	directory := t.TempDir()
	j, _ := open(t, directory, noteKind(true))
	put(t, j, note{"a", 1}, note{"a", 2})
	complete(t, j)
	// The state on disk when write is killed between its two renames: the previous generation
	// is the current one.
	if err := keepPrevious(filepath.Join(directory, "a.json"), filepath.Join(directory, unfinishedName+"1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, unfinishedName+"1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, content := open(t, directory, noteKind(true))
	if diff := cmp.Diff(Content[note]{Values: []note{{"a", 2}}}, content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	put(t, j, note{"a", 3})
	if diff := cmp.Diff([]string{"a.json", "a.json.previous"}, names(t, directory)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeReadBackIsNotRecorded(t *testing.T) {
	directory := t.TempDir()
	j, _ := open(t, directory, Kind[note]{ID: func(n note) string { return n.Name }, IDPattern: regexp.MustCompile(`^[a-z]+$`)})
	for _, name := range []string{"", "..", "a/b", "A", strings.Repeat("a", MaxFileBytes)} {
		if err := j.Put(note{name, 1}); err == nil {
			t.Errorf("%.20q was recorded", name)
		}
	}
	if files := names(t, directory); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestOpenReportsAFailedWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(filepath.Join(file, "below"), noteKind(false), testr.New(t))
	if err == nil || !strings.Contains(err.Error(), "state directory") {
		t.Errorf("error is %v, want one about the state directory", err)
	}
}
