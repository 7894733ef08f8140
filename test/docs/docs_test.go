package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// builtOnce returns the programs with their help.
var builtOnce = sync.OnceValues(func() (programs, error) { return readPrograms(root) })

// page is a Markdown file.
type page struct {
	// name is its path relative to the source tree.
	name, text string
}

// pages returns all Markdown files of the source tree.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, name := range filesOf(t, ".md") {
		all = append(all, page{name, read(t, name)})
	}
	if len(all) < 10 {
		t.Fatalf("found only %d pages", len(all))
	}
	return all
}

// filesOf returns the files of the source tree with one of the given extensions.
func filesOf(t *testing.T, endings ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "bin" || name == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.Contains(endings, filepath.Ext(path)) {
			name, err := filepath.Rel(root, path)
			names = append(names, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheREADMEIsShort(t *testing.T) {
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, at most 150 are allowed", lines)
	}
}

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	p, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate(root, p)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if diff := cmp.Diff(want, read(t, name)); diff != "" {
			t.Errorf("%s is out of date, run make generate (-generated +file):\n%s", name, diff)
		}
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fenced    = regexp.MustCompile("(?ms)^[ \t]*```([a-z]*)[^\n]*\n(.*?)^[ \t]*```")
	span      = regexp.MustCompile("`([^`\n]+)`")
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns GitHub's anchors for the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
		all[slug] = true
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		prose := span.ReplaceAllString(fenced.ReplaceAllString(p.text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			name := p.name
			if target != "" {
				name = filepath.Join(filepath.Dir(p.name), target)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: broken link %s", p.name, m[1])
				continue
			}
			if anchor != "" && filepath.Ext(name) == ".md" && !anchors(read(t, name))[anchor] {
				t.Errorf("%s: %s: no such heading", p.name, m[1])
			}
		}
	}
}

// TestSourcesNamePagesThatExist looks for docs/… in code, manifests and scripts; a
// prefix such as docs/adr/0009 is enough.
func TestSourcesNamePagesThatExist(t *testing.T) {
	named := regexp.MustCompile(`(?:^|[^/\w.-])(docs/[\w/.-]*\w)`)
	for _, name := range filesOf(t, ".go", ".yaml", ".yml", ".sh", "") {
		for _, m := range named.FindAllStringSubmatch(read(t, name), -1) {
			found, err := filepath.Glob(filepath.Join(root, m[1]) + "*")
			if err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

// TestPagesNameTestsAndFilesThatExist keeps the indexes for maintainers up to date.
func TestPagesNameTestsAndFilesThatExist(t *testing.T) {
	sources := filesOf(t, ".go")
	var all strings.Builder
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			all.WriteString(read(t, name))
		}
	}
	isTest, isSource := regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]\w+$`), regexp.MustCompile(`^[\w/.-]+\.go$`)
	for _, p := range pages(t) {
		for _, piece := range code(p.text) {
			if isTest.MatchString(piece) && !strings.Contains(all.String(), "func "+piece+"(") {
				t.Errorf("%s: test %s does not exist", p.name, piece)
			}
			if isSource.MatchString(piece) && !slices.ContainsFunc(sources, func(name string) bool { return strings.HasSuffix("/"+name, "/"+piece) }) {
				t.Errorf("%s: file %s does not exist", p.name, piece)
			}
		}
	}
}

// TestEveryLineOfTheThreatModelNamesATest: an identity, an attack or an input without a test is not shown.
func TestEveryLineOfTheThreatModelNamesATest(t *testing.T) {
	names := regexp.MustCompile("`(?:Test|Fuzz)[A-Z]\\w+`")
	for _, title := range []string{"Identities", "Attacks", "Fuzzed input"} {
		_, section, _ := strings.Cut(read(t, "SECURITY.md"), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		_, table, _ := strings.Cut(section, "\n|---")
		rows := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			cells := strings.Split(line, " | ")
			if rows++; !names.MatchString(cells[len(cells)-1]) {
				t.Errorf("%s: no test shows %q", title, cells[0])
			}
		}
		if rows < 10 {
			t.Errorf("%s: %d rows", title, rows)
		}
	}
}

// TestTheTreeNamesFoldersThatExist reads the list of folders in the architecture.
func TestTheTreeNamesFoldersThatExist(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/architecture.md"), "## The tree\n")
	folders := regexp.MustCompile(`(?m)(?:^|, )([a-z][\w/-]*/)(?:, | {2,}|$)`)
	listed := fenced.FindString(section)
	found := folders.FindAllStringSubmatch(listed, -1)
	for _, m := range found {
		if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
			t.Errorf("there is no folder %s", m[1])
		}
	}
	if len(found) < 60 {
		t.Errorf("found only %d folders", len(found))
	}
}

// code returns the commands and names of a page: the lines of its code blocks, with
// continuation lines joined, and its code spans.
func code(text string) []string {
	var pieces []string
	prose := fenced.ReplaceAllStringFunc(text, func(block string) string {
		m := fenced.FindStringSubmatch(block)
		if m[1] != "mermaid" && m[1] != "text" {
			pieces = append(pieces, strings.Split(strings.ReplaceAll(m[2], "\\\n", " "), "\n")...)
		}
		return ""
	})
	for _, m := range span.FindAllStringSubmatch(prose, -1) {
		pieces = append(pieces, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return pieces
}

func TestMakeTargetsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	called := regexp.MustCompile(`(?:^|[ ;&(])make ([a-z][a-z-]*)`)
	readme := map[string]bool{}
	for _, p := range pages(t) {
		for _, piece := range code(p.text) {
			for _, m := range called.FindAllStringSubmatch(piece, -1) {
				if !targets[m[1]] {
					t.Errorf("%s: make %s: no such target", p.name, m[1])
				}
				readme[m[1]] = readme[m[1]] || p.name == "README.md"
			}
		}
	}
	for _, target := range []string{"verify", "test", "test-nodes"} {
		if !readme[target] {
			t.Errorf("README.md does not name make %s, which CI runs because users are told to", target)
		}
	}
}

func TestCommandsAndFlagsExist(t *testing.T) {
	p, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	connection := p.plugin.find("options")
	invoked := regexp.MustCompile(`(?:^|[ (/])(kubectl gcu|node-agent|manager)(?: ([^;&#<>]*)|$)`)
	for _, page := range pages(t) {
		for _, piece := range code(page.text) {
			if strings.HasPrefix(piece, "--") && !strings.HasPrefix(page.name, "test/") && page.name != "docs/components.md" {
				if name := flagName(piece); name != "" && !anyHas(name, p.manager, p.agent, p.plugin) && !slices.Contains(foreignFlags, name) {
					t.Errorf("%s: no program has a flag --%s", page.name, name)
				}
			}
			for _, m := range invoked.FindAllStringSubmatch(piece, -1) {
				top := map[string]*command{"kubectl gcu": p.plugin, "node-agent": p.agent, "manager": p.manager}[m[1]]
				for _, complaint := range check(top, connection, strings.Fields(m[2])) {
					t.Errorf("%s: `%s`: %s", page.name, piece, complaint)
				}
			}
		}
	}
}

// foreignFlags are flags of other programs that pages mention without a command.
var foreignFlags = []string{"server-side", "resolve", "no-hooks", "force-conflicts", "atomic", "rollback-on-failure", "cascade"}

var aFlag = regexp.MustCompile(`^--?([a-zA-Z0-9][a-zA-Z0-9-]*)`)

// flagName returns the name of the flag at the beginning of a piece, "" for none.
func flagName(piece string) string {
	if m := aFlag.FindStringSubmatch(piece); m != nil {
		return m[1]
	}
	return ""
}

// anyHas reports whether a command or one of its subcommands has a flag.
func anyHas(name string, commands ...*command) bool {
	return slices.ContainsFunc(commands, func(c *command) bool { return c.flags[name] || anyHas(name, c.commands...) })
}

// check returns the errors in the words after a command. Each command of the plugin
// also accepts kubectl's connection flags.
func check(c, connection *command, words []string) []string {
	var complaints []string
	inName := true // while words are command names, not arguments
	for _, word := range words {
		word = strings.Trim(word, "[]()`'\",.")
		if word == "|" {
			break
		}
		if name := flagName(word); name != "" {
			known := c.flags[name] || (strings.HasPrefix(c.name, "kubectl gcu") && connection.flags[name])
			if !known {
				complaints = append(complaints, c.name+" has no flag "+word)
			}
			inName = false
			continue
		}
		if inName = inName && len(c.commands) > 0; !inName {
			continue
		}
		parent := c
		for _, one := range strings.Split(word, "|") { // as in task retry|skip|undo
			if child := parent.find(one); child != nil {
				c = child
			} else if isCommand.MatchString(one) && one != "help" && one != "completion" {
				complaints = append(complaints, parent.name+" has no command "+one)
			}
		}
		inName = c != parent
	}
	return complaints
}

var isCommand = regexp.MustCompile(`^[a-z][a-z-]*$`)
