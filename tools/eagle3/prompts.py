"""What the target is asked, in words of our own, or out of a folder of texts.

The head learns how the target goes on, not what is true: variety counts, answers do not.
"""

import itertools
import re

TOPICS = """gravity; volcanoes; the Roman Empire; photosynthesis; black holes; the French Revolution; vaccines;
plate tectonics; the water cycle; democracy; inflation; supply and demand; the Silk Road; jazz; the violin;
impressionism; chess; football; cycling; marathon running; yoga; sleep; nutrition; vitamins; the human heart;
the brain; DNA; evolution; bacteria; viruses; bees; whales; penguins; wolves; cats; dogs; horses; oak trees; mushrooms;
coffee; tea; bread; cheese; chocolate; rice; pasta; olive oil; gardening; composting; beekeeping; knitting; pottery;
photography; painting; poetry; novels; public speaking; job interviews; time management; remote work; teamwork;
leadership; budgeting; saving money; credit cards; mortgages; taxes; insurance; the stock market; recycling;
renewable energy; solar panels; wind turbines; nuclear power; electric cars; trains; aeroplanes; ships; bridges;
skyscrapers; concrete; steel; glass; paper; printing; the telephone; radio; television; the internet; e-mail;
passwords; encryption; machine learning; neural networks; databases; sorting algorithms; recursion; binary search;
operating systems; compilers; Linux; Python; JavaScript; HTML; spreadsheets; statistics; probability; prime numbers;
fractions; algebra; geometry; calculus; the metric system; time zones; calendars; maps; the compass; the Moon; Mars;
the Sun; comets; telescopes; tides; earthquakes; hurricanes; deserts; rainforests; coral reefs; glaciers; rivers;
Japan; Brazil; Egypt; Canada; India; Kenya; Iceland; Mexico; Italy; learning a language; grammar; translation;
friendship; patience; honesty; kindness; stress; motivation; habits; meditation; first aid; camping; hiking;
sailing; fishing; birdwatching; astronomy for beginners; home repair; cleaning; moving to a new city; birthdays"""

FORMS = """What is {}?; Explain {} in simple terms.; Explain {} to a ten-year-old.; Why does {} matter?; Tell me about {}.;
Write a short essay about {}.; Write a paragraph about {}.; List five facts about {}.; List ten words connected with {}.;
Give me three tips about {}.; What are the advantages and disadvantages of {}?; How did {} begin?; What is the history of {}?;
Write a short story about {}.; Write a poem about {}.; Write a haiku about {}.; What are common mistakes with {}?;
What should a beginner know about {}?; Describe {} in one sentence.; Summarise what you know about {}.; Who is famous for {}?;
Make a quiz of three questions about {}.; What would the world be like without {}?; Write a dialogue about {}.;
Compare {} with something similar.; How can I learn more about {}?; What is the future of {}?; Make a plan to study {} in a week.;
Write an introduction to a talk on {}.; What are the main parts of {}?; Give me a definition of {} and an example.;
Write a headline and a short article about {}.; What question would an expert ask about {}?; Is {} important today?;
How is {} used in daily life?; Write a tweet about {}.; Write a letter to a friend about {}.; What do children find hard about {}?;
Tell me a joke about {}.; Name a book about {} and say what is in it.; I don't understand {}. Can you help?;
Can you give me a step-by-step guide to {}?; What are some myths about {}?; Write a product description for {}.;
Create a table of contents for a book about {}.; Give me a metaphor for {}.; How would you teach {}?; Write a review of {}."""

LANGUAGES = "Python; JavaScript; Java; C; C++; Rust; Go; SQL; HTML; a shell script"

TASKS = """reverse a string; count the words in a text; check whether a number is prime; sort a list of numbers; find the largest number;
compute a factorial; print the Fibonacci numbers; read a file line by line; remove duplicates from a list; merge two sorted lists;
count the vowels in a word; convert Celsius to Fahrenheit; find the average of a list; check for a palindrome; sum the digits of a number;
find the second largest element; draw a triangle of stars; implement a stack; implement a queue; search in a sorted array; group words by length;
parse a date; generate a random password; validate an e-mail address; download a web page; make a to-do list; count characters; transpose a matrix"""

CODE_FORMS = """Write {task} in {language}.; How do I {task} in {language}?; Show me {language} code to {task}.;
Write a function in {language} to {task}, with comments.; Explain how to {task} in {language}, step by step."""

LETTERS = """my landlord about a broken window; my boss to ask for a day off; a customer whose order is late; a friend who moved away;
a teacher to thank her; a neighbour about loud music; a hotel to change a booking; a company to apply for a job; my team about a new plan;
a restaurant to complain politely; the city council about a park; my grandmother; a shop to return a jacket; a doctor to change an appointment"""

SUBJECTS = "the old gardener; my sister; a young engineer; the committee; our neighbour; the captain; a stray cat; the last bus; the new teacher"
VERBS = "repaired; forgot; painted; discovered; sold; borrowed; lost; described; carried; admired"
OBJECTS = "a wooden boat; the red umbrella; an unusual map; three letters; the broken clock; a basket of apples; her first camera; the garden gate"
CHANGES = """Rewrite this sentence to be more formal: {}; Make this sentence longer: {}; Translate into Spanish: {}; Translate into German: {};
Turn this into a question: {}; Correct the grammar: {}; Continue the story: {}; Say this in other words: {}; What happens next? {}; Is this positive or negative? {}"""

SUMS = """What is {a} plus {b}?; What is {a} times {b}?; Calculate {a} minus {b}.; I have {a} apples and buy {b} more. How many do I have?;
A train travels {a} km in {b} hours. How fast is it?; Which is larger, {a} or {b}?; List the numbers from {a} to {c}.; Split {b} coins between {d} people."""

FOLLOWING = """Can you give me an example?; Why is that?; Make it shorter.; Explain that again in simpler words.; What else should I know?; Thanks!;
Write it as a list.; Is that always true?; How do I start?; What is the most important point?; Can you say more about the second point?;
Give me another one.; What are the alternatives?; Translate that into French.; What could go wrong?; Turn it into a poem.; How much does it cost?; Are you sure?"""

OPENINGS = """The most important thing to remember about {} is; In this chapter we look at {}. ; # {}\n\n; Here is a short introduction to {}:\n\n;
There are three kinds of people who care about {}:; When I was young, I knew nothing about {}.; FAQ: {}\n\nQ:; The history of {} begins in"""

TEXT_FORMS = """Summarise this text:\n\n{}; Explain the following:\n\n{}; What is the main idea of this text?\n\n{}; Continue this text:\n\n{};
Write three questions about this text:\n\n{}; Rewrite this text in simpler words:\n\n{}; {}\n\nWhat does this mean?"""

# Never trained on, and written apart from the above.
HELD_OUT = {
    "question": """Who invented the bicycle?; How long does it take to boil an egg?; Why do leaves change colour in autumn?;
What is the difference between a lake and a sea?; How does a refrigerator keep food cold?; What causes thunder?; Why do we yawn?;
What is the tallest animal on Earth?; How do submarines stay under water?; What language is spoken in Argentina?;
Why is bread soft inside and hard outside?; How do fireflies make light?""",
    "writing": """Write a thank-you note to a nurse.; Tell me a bedtime story about a snail who wanted to fly.; Write four lines about rain on a tin roof.;
Describe an empty railway station at night.; Write a toast for a wedding.; Invent a slogan for a bakery.; Write the first paragraph of a detective novel.;
Describe the taste of a lemon to someone who never had one.; Write a short speech for a school opening.; Write a fable with an ant and a king.""",
    "code": """Write a Python class for a bank account.; How do I swap two variables without a third one?; Write a loop in C that prints the even numbers up to 20.;
Explain what a pointer is.; Write a regular expression that matches a phone number.; What does git rebase do?; Write a JavaScript function that flattens a nested array.;
How do I read a CSV file in Python?; Write a unit test for a function that adds two numbers.; What is the difference between a list and a tuple?""",
    "task": """Plan a weekend in Vienna for two people.; Suggest a name for a grey parrot.; Give me a recipe for pancakes.; Make a packing list for a week at the sea.;
Rank these by size: a bean, a house, a mouse.; Compare tea and coffee in a table.; Summarise the story of Cinderella in two sentences.; How can I calm down before an exam?;
Translate 'good night' into five languages.; Write a short biography of an imaginary painter.""",
}


def phrases(text):
    """Entries are parted by semicolons; line breaks of this file are none of theirs."""
    return [" ".join(part.split()) for part in text.split(";")]


def broken_phrases(text):
    """The same where line breaks inside an entry count."""
    return [part.removeprefix("\n").removeprefix(" ") for part in text.split(";")]


def questions(random):
    """All of them, shuffled."""
    topics = phrases(TOPICS)
    found = [form.format(topic) for form in phrases(FORMS) for topic in topics]
    for form, task, language in itertools.product(phrases(CODE_FORMS), phrases(TASKS), phrases(LANGUAGES)):
        found.append(form.format(task=f"a program to {task}" if form.startswith("Write {task}") else task, language=language))
    found += [f"Write {kind} to {who}." for who in phrases(LETTERS) for kind in ["a letter", "a short e-mail", "a friendly message"]]
    for who, did, what in itertools.product(phrases(SUBJECTS), phrases(VERBS), phrases(OBJECTS)):
        sentence = f"{who[0].upper()}{who[1:]} {did} {what}."
        found.append(random.choice(phrases(CHANGES)).format(sentence))
    for _ in range(1500):
        a, b = random.randint(2, 99), random.randint(2, 99)
        found.append(random.choice(phrases(SUMS)).format(a=a, b=b, c=a + random.randint(3, 12), d=random.randint(2, 9)))
    random.shuffle(found)
    return found


def openings():
    """Plain text without a chat."""
    return [form.format(topic) for form in broken_phrases(OPENINGS) for topic in phrases(TOPICS)]


def of_folder(folder, random):
    """Questions about paragraphs, and beginnings of paragraphs to go on with."""
    asked, begun = [], []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".md", ".txt", ".rst"} or not path.is_file():
            continue
        for paragraph in re.split(r"\n\s*\n", path.read_text(errors="replace")):
            paragraph = paragraph.strip()
            if 120 <= len(paragraph) <= 1000:
                asked.append(random.choice(broken_phrases(TEXT_FORMS)).format(paragraph))
                begun.append(paragraph[: random.randint(40, 240)].rsplit(" ", 1)[0])
    return asked, begun
