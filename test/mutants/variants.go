package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// chosen is the variable of the environment with the number of the defect that a test has: that of the
// change, from 1; without it the test has none.
const chosen = "GCU_MUTANT"

// variants returns the files of the changed packages, by path, with every defect: each changed function
// calls the variant of it that the environment chooses, f__7 with defect 7, and f__0, the original,
// without one of its own.
func variants(changes []change) map[string]string {
	of := map[string][]int{} // by the place of the function
	for i, c := range changes {
		place := fmt.Sprintf("%s %09d", c.in.path, c.in.offset())
		of[place] = append(of[place], i)
	}
	files := map[string]string{}
	done := map[string]int{} // up to where each file is written
	for _, place := range slices.Sorted(maps.Keys(of)) {
		numbers := of[place]
		f := changes[numbers[0]].in
		files[f.path] += f.source[done[f.path]:f.offset()] + f.dispatcher(numbers) + "\n\n" + f.renamed(f.text(), 0)
		for _, n := range numbers {
			files[f.path] += "\n\n" + f.renamed(changes[n].text(), n+1)
		}
		done[f.path] = f.end()
		files[filepath.Join(filepath.Dir(f.path), "zz_mutants.go")] = "package " + f.pkg + "\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutant__, _ = strconv.Atoi(os.Getenv(\"" + chosen + "\"))\n"
	}
	for _, c := range changes {
		if end, ok := done[c.in.path]; ok {
			files[c.in.path] += c.in.source[end:]
			delete(done, c.in.path)
		}
	}
	return files
}

// offset is where the declaration begins in the source, and end where it ends.
func (f function) offset() int { return f.file.Offset(f.declaration.Pos()) }
func (f function) end() int    { return f.file.Offset(f.declaration.End()) }

// text is the declaration, and that of a change the one with the defect.
func (f function) text() string { return f.source[f.offset():f.end()] }
func (c change) text() string {
	return c.source[c.in.offset() : len(c.source)-(len(c.in.source)-c.in.end())]
}

// renamed is a declaration of the function under the name of variant n.
func (f function) renamed(text string, n int) string {
	end := f.file.Offset(f.declaration.Name.End()) - f.offset()
	return text[:end] + suffix(n) + text[end:]
}

func suffix(n int) string { return "__" + strconv.Itoa(n) }

// dispatcher is a function of the same name and type that calls the variant that is chosen.
func (f function) dispatcher(numbers []int) string {
	code := func(n ast.Node) string { return f.source[f.file.Offset(n.Pos()):f.file.Offset(n.End())] }
	d, receiver, call := f.declaration, "", f.declaration.Name.Name
	if d.Recv != nil {
		receiver, call = "(r__ "+code(d.Recv.List[0].Type)+") ", "r__."+call
	}
	types, typeNames := "", ""
	if d.Type.TypeParams != nil {
		types, typeNames = code(d.Type.TypeParams), "["+strings.Join(namesOf(d.Type.TypeParams), ", ")+"]"
	}
	results, before, after := "", "", "\n\t\treturn"
	if d.Type.Results != nil {
		results, before, after = " "+code(d.Type.Results), "return ", ""
	}
	parameters, arguments := passed(d.Type.Params, code)
	calls := func(n int) string { return before + call + suffix(n) + typeNames + "(" + arguments + ")" }
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s%s(%s)%s {\n\tswitch mutant__ {\n", receiver, d.Name.Name, types, parameters, results)
	for _, n := range numbers {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t%s%s\n", n+1, calls(n+1), after)
	}
	fmt.Fprintf(&b, "\t}\n\t%s\n}", calls(0))
	return b.String()
}

func namesOf(fields *ast.FieldList) (names []string) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// passed are parameters under other names, and the arguments with which they are passed on.
func passed(fields *ast.FieldList, code func(ast.Node) string) (parameters, arguments string) {
	var all, names []string
	for _, field := range fields.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("p%d__", len(all))
			all = append(all, name+" "+code(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			names = append(names, name)
		}
	}
	return strings.Join(all, ", "), strings.Join(names, ", ")
}

// writeOverlay writes the files with all defects, and their map for go build.
func writeOverlay(path string, changes []change) error {
	replace := map[string]string{}
	for file, source := range variants(changes) {
		original, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("finding %s: %w", file, err)
		}
		replace[original] = filepath.Join(filepath.Dir(path), fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[original], []byte(source), 0o600); err != nil {
			return fmt.Errorf("writing the changed file: %w", err)
		}
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return fmt.Errorf("encoding the overlay: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	return nil
}
