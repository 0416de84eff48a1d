//! Checks: calls whose answer says how something is, and whether that is what one wants.

use std::sync::LazyLock;

use regex::Regex;

use crate::count::codes::code;
use crate::patterns::{around, pattern, rows};
use crate::same::text::{head, strip};
use crate::same::tools::{looks_by_command, purpose, reads_by_command};
use crate::same::waits::ends_of;
use crate::tables::{CHECKS, any_of};

const COMMAND_CHARS: usize = 2_000;
// Fewer words are a name, a class or a grade.
const JUDGED_WORDS_MIN: usize = 5;

// Words are alike by their first characters: "lacks", "lacking".
const STEM_CHARS: usize = 4;

rows! {
    CHECK: Pattern = CHECKS["check_name"];
    TELLING: Pattern = CHECKS["telling_name"];
    SHELL: Pattern = CHECKS["shell_name"];
    COMMAND_KEY: Pattern = CHECKS["command_key"];
    FAULT: Pattern = CHECKS["fault"];
    FINE: Pattern = CHECKS["fine"];
    DONE: Pattern = CHECKS["done"];
    SCORES: Pattern = CHECKS["scores"];
}

static PROGRAM: LazyLock<fancy_regex::Regex> = LazyLock::new(|| around(&CHECKS["program"]));
static WRAPPED: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&CHECKS["wrapped"])));
static KEY: LazyLock<Regex> = LazyLock::new(|| pattern(r#"["']\w+["'] ?:"#));
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\w"));
static SAID: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w.%-]*\w"));
static FILLER: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&CHECKS["filler"])));
static NO_FAULT: LazyLock<fancy_regex::Regex> = LazyLock::new(|| around(&CHECKS["no_fault"]));
static OF_MANY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d ?(?:/|of|out of) ?\d"));
static SHARE: LazyLock<fancy_regex::Regex> = LazyLock::new(|| around(&CHECKS["share"]));

/// What the name of a tool says about its checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checker {
    /// It judges a text that it is given.
    pub critic: bool,
    /// It may check something.
    pub checks: bool,
    /// It runs commands.
    pub shell: bool,
    /// It fails where something is wrong.
    pub tells: bool,
}

impl Checker {
    /// Read the name of a tool.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let shell = SHELL.is_match(name);
        let critic = purpose(Some(name)).judges;
        Self {
            critic,
            checks: shell || critic || CHECK.is_match(name),
            shell,
            tells: TELLING.is_match(name),
        }
    }

    /// Whether an answer is a judgement in words of a text that changes from call to call.
    #[must_use]
    pub fn judges(self, arguments: &str, result: &str) -> bool {
        let is_long = |text: &str| text.split_whitespace().nth(JUDGED_WORDS_MIN - 1).is_some();
        self.critic && is_long(arguments) && is_long(result)
    }

    /// The code of what a critic says in a sentence or more, in whatever order and with whatever
    /// words that only join; none for other answers.
    #[must_use]
    pub fn said(self, result: &str) -> Option<i64> {
        if !self.critic {
            return None;
        }
        let text = result.to_lowercase();
        let words = SAID.find_iter(&text).map(|word| word.as_str());
        let mut words: Vec<&str> = words.filter(|word| !FILLER.is_match(word)).collect();
        if words.len() < JUDGED_WORDS_MIN {
            return None;
        }
        for word in &mut words {
            *word = head(word, STEM_CHARS);
        }
        words.sort_unstable();
        words.dedup();
        Some(code(&words.join(" ")))
    }

    /// The code of the score that a critic gives what it is told to look at, whatever it says of it;
    /// none for other answers.
    #[must_use]
    pub fn scored(self, result: &str) -> Option<i64> {
        self.critic.then(|| score_in(&ends_of(result)))?
    }

    /// Whether a call runs a command that only looks.
    #[must_use]
    pub fn looks(self, arguments: &str) -> bool {
        self.is_shell(head(arguments, COMMAND_CHARS)) && looks_by_command(arguments)
    }

    fn is_shell(self, command: &str) -> bool {
        self.shell || COMMAND_KEY.is_match(command)
    }

    /// Whether a call checks something, and its answer is not that all is well.
    ///
    /// An answer is wrong where it says so. Where it says neither, it is the output of a program,
    /// which was run to see another one, or the good news of a tool that fails where something is
    /// wrong.
    #[must_use]
    pub fn falls_short(self, arguments: &str, result: &str) -> bool {
        if result.is_empty() {
            return false;
        }
        let command = head(arguments, COMMAND_CHARS);
        let is_shell = self.is_shell(command);
        let runs = if is_shell {
            PROGRAM.is_match(command).unwrap_or(false)
        } else {
            !self.tells
        };
        let text = ends_of(result);
        let is_part = is_part(&text);
        let may_fail = is_part || FAULT.is_match(&text);
        if !runs && (!may_fail || (is_shell && shows(command))) {
            return false;
        }
        let text = WRAPPED.replace_all(&text, "");
        let text = strip(&text);
        if !WORD.is_match(&KEY.replace_all(text, "")) {
            return false;
        }
        if is_part || (may_fail && FAULT.is_match(&NO_FAULT.replace_all(text, ""))) {
            return true;
        }
        let last = text.rsplit('\n').next().unwrap_or_default();
        runs && !(FINE.is_match(text) || DONE.is_match(last))
    }
}

/// The code of the only score that a text gives.
#[must_use]
pub fn score_in(text: &str) -> Option<i64> {
    let score = SCORES.captures(text)?;
    if SCORES.find_at(text, score.range().end).is_some() {
        return None;
    }
    let figures = score.name("score").or_else(|| score.name("score2"))?;
    Some(code(&figures.replace(' ', "")))
}

/// Whether an answer says in words that something is wrong.
#[must_use]
pub fn tells_fault(result: &str) -> bool {
    let text = ends_of(result);
    FAULT.is_match(&text) && FAULT.is_match(&NO_FAULT.replace_all(&text, ""))
}

fn shows(command: &str) -> bool {
    reads_by_command(command) || looks_by_command(command)
}

/// Whether some of many are told, and not all.
fn is_part(text: &str) -> bool {
    if !OF_MANY.is_match(text) {
        return false;
    }
    SHARE.captures_iter(text).flatten().any(|pair| {
        let count = |group| pair.get(group).and_then(|n| n.as_str().parse::<u32>().ok());
        matches!((count(1), count(2)), (Some(some), Some(all)) if some < all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_answer_that_falls_short_is_known() {
        for (command, answer) in [
            ("python3 -u run.py --n 4", "result: 3.14"),
            ("python repro.py 2>&1 | tail -20", "Got: []\nWant: [1]"),
            ("cargo run --release < in.txt", "12 17"),
            ("uv run python -m app.cli report", "Revenue: 0.00 EUR"),
            ("docker exec web python check_rows.py", "rows: 0"),
            (
                "make >/dev/null; ./a.out",
                "Segmentation fault (core dumped)",
            ),
            (
                "make 2>&1 | grep -i error | head",
                "main.c:3:5: error: expected ';' before '}'",
            ),
            ("npx tsc --noEmit | head", "src/a.ts(3,5): error TS2345"),
            (
                "psql -c 'select count(*) from orders'",
                " count \n-------\n     0\n(1 row)",
            ),
            ("make test | tail -3", "not ok 3 - totals"),
            ("./app --selftest", "2 of 9 checks pass"),
        ] {
            assert!(bash(command, answer), "{command}: {answer}");
        }
    }

    #[test]
    fn a_critic_says_the_same_in_another_order() {
        let critic = Checker::of("review_draft");
        let one = critic.said("The draft is good, but the opening lacks a hook. Please revise.");
        assert!(one.is_some());
        assert_eq!(
            one,
            critic.said("Good draft; its opening is still lacking a hook, revise it please.")
        );
        assert_ne!(
            one,
            critic.said("The draft is good, but chapter 2 lacks a hook. Please revise.")
        );
        assert_eq!(critic.said("weak"), None);
        assert_eq!(
            Checker::of("run_tests").said("a draft lacks one good hook here"),
            None
        );
    }

    #[test]
    fn a_score_is_known() {
        let six = score_in("Score: 6/10. Too generic.");
        assert!(six.is_some());
        for text in [
            r#"{"score": "6/10", "feedback": "The end is weak."}"#,
            "I give it 6 / 10, since it is weak.",
            "评分：6/10",
        ] {
            assert_eq!(score_in(text), six, "{text}");
        }
        for text in [
            "Style: 6/10. Plot: 7/10.",
            "page 6 of 10",
            "It scored well.",
            "",
        ] {
            assert_eq!(score_in(text), None, "{text}");
        }
        let critic = Checker::of("evaluate_essay");
        assert_eq!(critic.scored("Score: 6/10."), six);
        assert_eq!(Checker::of("run_tests").scored("Score: 6/10."), None);
    }

    #[test]
    fn an_answer_that_is_well_is_known() {
        let built = "> app@1.0.0 build\n✓ 34 modules transformed.\ndist/index.js 12 kB";
        for (command, answer) in [
            ("bun run typecheck", "$ tsc --noEmit"),
            ("npm run build", built),
            (
                "cargo build",
                "   Compiling a v0.1.0\n    Finished dev [unoptimized] target(s)",
            ),
            (
                "python -m mypy .",
                "Success: no issues found in 3 source files",
            ),
            (
                "python manage.py check",
                "System check identified no issues (0 silenced).",
            ),
            ("helm lint chart", "1 chart(s) linted, 0 chart(s) failed"),
            ("git status -s", " M src/error.ts"),
            ("ls -la", "-rw-r--r-- 1 a a 12 error.log"),
            ("cat test_output.txt", "FAILED: expected 42"),
            ("grep -rn total src", "src/a.py:3: # expected 42"),
            ("curl -s -o /dev/null -w '%{http_code}' localhost:80", "200"),
            ("npx eslint .", "3 problems (0 errors, 3 warnings)"),
            ("bash scripts/deploy.sh", "web-1 live"),
            ("python train.py --help", "train.py [-h]"),
            ("node main.js", ""),
        ] {
            assert!(!bash(command, answer), "{command}: {answer}");
        }
    }

    fn bash(command: &str, answer: &str) -> bool {
        let arguments = serde_json::json!({ "command": command }).to_string();
        Checker::of("bash").falls_short(&arguments, answer)
    }

    #[test]
    fn a_wrapper_says_nothing_of_the_answer() {
        let run = r#"{"command":"python cart.py"}"#;
        let told = r#"{"stdout": "total: 41", "stderr": "", "exit_code": 0, "success": true}"#;
        let checker = Checker::of("bash");
        assert!(checker.falls_short(run, told));
        assert!(!checker.falls_short(run, &told.replace("total: 41", "")));
    }

    #[test]
    fn a_check_is_known_by_its_tool() {
        for name in [
            "run_tests",
            "verifyTotal",
            "Bash",
            "ipython",
            "getDiagnostics",
            "browser_click",
        ] {
            assert!(Checker::of(name).checks, "{name}");
        }
        for name in [
            "clickstream_rows",
            "screenshot",
            "inventory",
            "send_mail",
            "checkout_branch",
            "runner_list",
        ] {
            assert!(!Checker::of(name).checks, "{name}");
        }
    }

    #[test]
    fn examples_of_faults_are_found_in_a_build() {
        for row in &CHECKS["fault"] {
            for text in row.examples.iter().map(|example| &example.text) {
                assert!(Checker::of("run_build").falls_short("{}", text), "{text}");
            }
        }
    }
}
