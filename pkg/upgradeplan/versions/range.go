package versions

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
)

// rangeOf parses the range of a field; an empty one contains everything. The error says what to write instead.
func rangeOf(field, text string) (versionRange, error) {
	if text == "" {
		return versionRange{}, nil
	}
	const asIn = `write it as in ">=1.5.0 <1.7.0 || 2.0.x", with three numbers or x`
	in, err := semver.ParseRange(text)
	if err != nil {
		return versionRange{}, fmt.Errorf(`%s: %q is not a range of versions: %s`, field, text, asIn)
	}
	if why := misread(text); why != "" {
		return versionRange{}, fmt.Errorf(`%s: %q is not a range of versions: %s; %s`, field, text, why, asIn)
	}
	return versionRange{text: text, in: in}, nil
}

// The parser of ranges drops what has one character, ignores operators before x that it does not know, and takes both
// halves of !=1.4.x together. A rule about a range without any version would never apply, and nothing would report it.

// misread returns why the parser gives a range another meaning than it has for its author, and what to write instead;
// "" if it does not.
func misread(text string) string {
	for _, part := range strings.Fields(detached.ReplaceAllString(text, "$1")) {
		if why := misreadPart(part); why != "" {
			return why
		}
	}
	for alternative := range strings.SplitSeq(text, "||") {
		if isEmpty(alternative) {
			return fmt.Sprintf(`no version is in %q: write "||" for or`, strings.TrimSpace(alternative))
		}
	}
	return ""
}

var (
	// detached is an operator that the parser attaches to the version after it, with the blanks in between.
	detached = regexp.MustCompile(`([<>=]) +`)
	// wildcard is a version with x.
	wildcard = regexp.MustCompile(`^(\d+)(?:\.(\d+))?\.x$`)
	// twoWildcards is a part with two x that the parser reads as it is written, unlike those with other operators.
	twoWildcards = regexp.MustCompile(`^(>=|<)\d+\.x\.x$`)
)

// misreadPart is misread for a part between blanks.
func misreadPart(part string) string {
	if len(part) == 1 {
		return fmt.Sprintf(`%q has no meaning: write "||" for or, and nothing for and`, part)
	}
	at := strings.IndexAny(part, "0123456789")
	if at < 0 || !strings.Contains(part, "x") || twoWildcards.MatchString(part) {
		return ""
	}
	operator, version := part[:at], part[at:]
	numbers := wildcard.FindStringSubmatch(version)
	switch {
	case numbers != nil && (operator == "!" || operator == "!="):
		return fmt.Sprintf(`write "<%s || >=%s" for %s`, numbersOf(numbers, 0), numbersOf(numbers, 1), part)
	case !slices.Contains([]string{"", "=", "==", "<", "<=", ">", ">="}, operator), numbers == nil && strings.Contains(version, ".x"):
		return fmt.Sprintf("%q is no version", part)
	}
	return ""
}

// numbersOf returns the version that begins what a wildcard stands for, or with 1 the one after it.
func numbersOf(wildcard []string, more int) string {
	major, minor := wildcard[1], wildcard[2]
	if minor == "" {
		return plus(major, more) + ".0.0"
	}
	return major + "." + plus(minor, more) + ".0"
}

func plus(number string, more int) string {
	n, _ := strconv.Atoi(number) // digits; what overflows is no version either
	return strconv.Itoa(n + more)
}

// isEmpty reports whether a range without || has no version in it. What lies between pre-releases is not known.
func isEmpty(text string) bool {
	in, err := semver.ParseRange(text)
	if err != nil || strings.Contains(text, "-") {
		return false
	}
	named := literals(text)
	for _, v := range named {
		first := v
		first.Pre = []semver.PRVersion{{IsNum: true}} // 1.4.1-0 is the only kind between 1.4.0 and 1.4.1
		around := []semver.Version{v, after(v), before(v), first, {Major: v.Major, Minor: v.Minor + 1}, {Major: v.Major + 1}}
		if slices.ContainsFunc(around, in) {
			return false
		}
	}
	return len(named) > 0
}
