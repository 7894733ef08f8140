package dashboard

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast: 4.5 is the least contrast of text in WCAG 2.2, 1.4.3.
func TestContrast(t *testing.T) {
	style, err := files.ReadFile("style.css")
	check(t, err)
	light, dark, _ := strings.Cut(string(style), "prefers-color-scheme: dark")
	schemes := map[string]string{"light": light, "dark": dark}
	for scheme, text := range schemes {
		colors := map[string]string{}
		for _, found := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]+);`).FindAllStringSubmatch(text, -1) {
			colors[found[1]] = found[2]
		}
		for _, l := range letters {
			if c := contrast(t, colors[l.state], "ffffff"); c < 4.5 {
				t.Errorf("%s: the contrast of letters on %s is %.2f", scheme, l.state, c)
			}
		}
		texts := 0
		for name, color := range colors {
			if !strings.HasSuffix(name, "-text") {
				continue
			}
			texts++
			if c := contrast(t, color, colors["paper"]); c < 4.5 {
				t.Errorf("%s: the contrast of %s is %.2f", scheme, name, c)
			}
		}
		if texts == 0 {
			t.Errorf("%s has no colors of text", scheme)
		}
	}
	for _, l := range letters {
		if regexp.MustCompile(`[ ;{]color: var\(--` + l.state + `\)`).Match(style) {
			t.Errorf("text has the color of the background %s", l.state)
		}
	}
}

// contrast returns the ratio of WCAG 2.2 for two colors.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance of a color of three or six digits.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	if len(color) == 3 {
		color = strings.Repeat(color[:1], 2) + strings.Repeat(color[1:2], 2) + strings.Repeat(color[2:], 2)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part, err := strconv.ParseUint(color[2*i:2*i+2], 16, 8)
		check(t, err)
		c := float64(part) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
