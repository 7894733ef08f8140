// Package handbook reads the commands of the project's own pages, for the stories of test/e2e that run them.
// test/docs holds that each command has a story, or a reason in notrun.go.
package handbook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// All are the pages whose commands are run.
var All = []string{"README.md", "docs/install.md", "docs/upgrade.md", "docs/edge-node.md", "docs/troubleshooting.md", "docs/migrate.md"}

// Section is a part of a page that has commands.
type Section struct {
	// Page is a path relative to the source tree, Title the nearest heading above the commands.
	Page, Title string
	Blocks      []Block
}

// Block are the commands of a block of code, in their order.
type Block []Command

// Command is a line of a block, with the lines that continue it and its comment.
type Command struct {
	Text string
	// NotRun is why no story runs it; "" if one does.
	NotRun string
}

var (
	heading = regexp.MustCompile(`^#{1,6} (.+)$`)
	// continues matches a line whose command goes on in the next one.
	continues = regexp.MustCompile(`(?:\||\\|&&)$`)
)

// Read returns the sections of a page below root that have blocks of shell commands, in their order.
func Read(root, page string) ([]Section, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	return parse(page, string(text)), nil
}

// parse returns the sections of a page with their commands.
func parse(page, text string) []Section {
	var sections []Section
	title, fence := "", ""
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		marked, isFence := strings.CutPrefix(line, "```")
		switch found := heading.FindStringSubmatch(line); {
		case isFence && fence == "":
			fence, lines = "```"+marked, nil
		case isFence:
			if fence == "```sh" {
				sections = appendBlock(sections, page, title, lines)
			}
			fence = ""
		case fence != "":
			lines = append(lines, line)
		case found != nil:
			title = found[1]
		}
	}
	return sections
}

// appendBlock adds a block to the section with a title, which is the last one or new.
func appendBlock(sections []Section, page, title string, lines []string) []Section {
	if n := len(sections); n == 0 || sections[n-1].Title != title {
		sections = append(sections, Section{Page: page, Title: title})
	}
	last := &sections[len(sections)-1]
	var block Block
	open := false
	for _, line := range lines {
		switch {
		case open:
			block[len(block)-1].Text += "\n" + line
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		default:
			block = append(block, Command{Text: line})
		}
		open = continues.MatchString(line)
	}
	for i := range block {
		block[i].NotRun = whyNot(page, title, block[i].Text)
	}
	last.Blocks = append(last.Blocks, block)
	return sections
}

// ToRun returns the blocks without the commands that no story runs, and without blocks that have no others.
func (s Section) ToRun() [][]string {
	var blocks [][]string
	for _, block := range s.Blocks {
		var run []string
		for _, c := range block {
			if c.NotRun == "" {
				run = append(run, c.Text)
			}
		}
		if len(run) > 0 {
			blocks = append(blocks, run)
		}
	}
	return blocks
}

// Fill replaces names in a command as whole words: a name next to a letter or a digit stays, NODE_driver_verify has NODE.
// At each place the longest name counts, and what is put there is not looked at again.
func Fill(command string, names map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(command); {
		name := ""
		for n := range names {
			if len(n) > len(name) && isWordAt(command, n, i) {
				name = n
			}
		}
		if name == "" {
			b.WriteByte(command[i])
			i++
			continue
		}
		b.WriteString(names[name])
		i += len(name)
	}
	return b.String()
}

// isWordAt returns whether a name is at a place of a text, with no letter or digit beside it.
func isWordAt(text, name string, at int) bool {
	end := at + len(name)
	return strings.HasPrefix(text[at:], name) && (at == 0 || !isAlphanumeric(text[at-1])) && (end == len(text) || !isAlphanumeric(text[end]))
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
